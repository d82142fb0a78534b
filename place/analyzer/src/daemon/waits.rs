//! The time that threads waited for a processor, by their kind: the kernel's account of each thread in a
//! segment's table.

use crate::guard::{Waited, Waiter};
use crate::model::KindRef;
use crate::segment::{Application, Folder};
use std::collections::BTreeMap;

/// All threads that worked on a kind with a time slice. Threads whose account may not be read are left out.
pub(super) fn read(folder: &mut Folder) -> BTreeMap<Waiter, Waited> {
    folder.applications().flat_map(|application| of(application)).collect()
}

fn of(application: &Application) -> Vec<(Waiter, Waited)> {
    let cycles_per_ns = application.cycles_per_second() as f64 / 1e9;
    let threads = application.threads().into_iter().filter_map(|thread| {
        let account = std::fs::read_to_string(format!("/proc/{}/schedstat", thread.tid)).ok()?;
        let (app, tid, started_ticks) = (application.app(), thread.tid, thread.started_ticks);
        let kind = KindRef { app, code: thread.code };
        let cycles = waited_ns(&account)? as f64 * cycles_per_ns;
        Some((Waiter { app, tid, started_ticks }, Waited { kind, cycles }))
    });
    threads.collect()
}

/// The second number of "time on a processor, time waiting for one, time slices run".
fn waited_ns(account: &str) -> Option<u64> {
    account.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::waited_ns;

    #[test]
    fn the_second_number_is_what_a_thread_waited() {
        assert_eq!(waited_ns("546342 745734 3\n"), Some(745_734));
        assert_eq!(waited_ns("546342"), None);
        assert_eq!(waited_ns("a b c"), None);
    }
}
