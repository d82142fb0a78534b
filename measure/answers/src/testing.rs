//! Synthetic records and a code map with five routines, for this crate's tests.

use crate::code::{CodeMap, Image, ImageAddress, ImageId, Place, Routine, SourceLine};
use hardmeter_samples::model::{
    Comm, CpuId, CpuMode, Cycles, EventIndex, FileOffset, Fork, Period, Pid, Record, Sample, Tid, Timestamp,
    VirtualAddress, Weight,
};

/// One image `server`, loaded at 0x10000 in every process: routines every 0x100 bytes.
///
/// ```text
///   0x000 LWLockAcquire   0x100 LWLockRelease   0x200 (static)   0x300 hash_search   0x400 ... unknown
/// ```
#[derive(Default)]
pub(crate) struct FakeMap {
    /// Calls of `routine`, to test that naming is lazy.
    pub routine_calls: usize,
}

pub(crate) const BASE: u64 = 0x10000;

impl CodeMap for FakeMap {
    fn observe(&mut self, _record: &Record<'_>) {}

    fn place(&mut self, _pid: Option<Pid>, address: VirtualAddress, _mode: CpuMode) -> Place {
        match address.0.checked_sub(BASE) {
            Some(inside) => Place { image: ImageId(0), offset: FileOffset(inside) },
            None => Place { image: ImageId::NONE, offset: FileOffset(address.0) },
        }
    }

    fn image(&self, image: ImageId) -> Option<Image> {
        (image == ImageId(0)).then(|| Image { path: "/usr/bin/server".into(), build_id: None })
    }

    fn address(&mut self, place: Place) -> ImageAddress {
        ImageAddress(place.offset.0)
    }

    fn routine(&mut self, place: Place) -> Routine {
        self.routine_calls += 1;
        match (place.image, place.offset.0 >> 8) {
            (ImageId(0), 0) => Routine::Named("LWLockAcquire".into()),
            (ImageId(0), 1) => Routine::Named("LWLockRelease".into()),
            (ImageId(0), 2) => Routine::Nameless("static function in server".into()),
            (ImageId(0), 3) => Routine::Named("hash_search".into()),
            _ => Routine::Unknown("no mapping".into()),
        }
    }

    fn line(&mut self, place: Place) -> Option<SourceLine> {
        (place.image == ImageId(0))
            .then(|| SourceLine { file: "lwlock.c".into(), line: (place.offset.0 / 0x10) as u32 + 1 })
    }
}

/// A user-mode sample of `event` in process `pid` at `ip`, period 1, latency 10.
pub(crate) fn sample(event: usize, pid: i32, ip: u64) -> Sample<'static> {
    Sample {
        exact_ip: true,
        ip: Some(VirtualAddress(ip)),
        pid: Some(Pid(pid)),
        tid: Some(Tid(pid)),
        time: Some(Timestamp(1)),
        cpu: Some(CpuId(0)),
        weight: Some(Weight { latency: Cycles(10), ..Weight::default() }),
        ..Sample::bare(EventIndex(event), CpuMode::User, Period(1))
    }
}

/// Process `pid` sets its name.
pub(crate) fn comm(pid: i32, name: &str) -> Record<'static> {
    Record::Comm(Comm { pid: Pid(pid), tid: Tid(pid), name: name.into(), exec: false, time: None })
}

/// Process `parent` forks `child`.
pub(crate) fn fork(parent: i32, child: i32) -> Record<'static> {
    Record::Fork(Fork {
        pid: Pid(child),
        parent_pid: Pid(parent),
        tid: Tid(child),
        parent_tid: Tid(parent),
        time: None,
    })
}
