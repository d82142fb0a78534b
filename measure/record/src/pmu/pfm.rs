//! Event names by libpfm4, the library that knows the encodings of every processor's events.
//!
//! It is loaded only for names that no other source knows, so that Hardmeter runs without it.

use super::encoding::Encoding;
use hardmeter_samples::perf_data::abi::PerfEventAttr;
use libloading::Library;
use std::ffi::{c_char, c_int, CStr, CString};

/// The reason why libpfm4 returned no encoding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PfmError {
    /// The library is not there.
    #[error("libpfm4 is not installed ({0})")]
    Missing(String),
    /// The library does not work.
    #[error("libpfm4 cannot start: {0}")]
    Initialise(String),
    /// The name is unknown on this processor.
    #[error("libpfm4 says: {0}")]
    Name(String),
}

/// `PFM_PLM0 | PFM_PLM3`: kernel and user. The modes are set by us afterwards.
const ALL_LEVELS: c_int = 0x1 | 0x8;
/// `PFM_OS_PERF_EVENT`: encode for perf_event_open, attributes of the PMU only.
const OS_PERF_EVENT: c_int = 1;

/// `pfm_perf_encode_arg_t` of `perfmon/pfmlib_perf_event.h`, 40 bytes on 64-bit machines.
#[repr(C)]
struct EncodeArgument {
    attr: *mut PerfEventAttr,
    fstr: *mut *mut c_char,
    size: usize,
    index: c_int,
    cpu: c_int,
    flags: c_int,
    padding: c_int,
}

type Initialize = unsafe extern "C" fn() -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type OsEncoding = unsafe extern "C" fn(*const c_char, c_int, c_int, *mut EncodeArgument) -> c_int;

/// The loaded library.
pub struct Pfm {
    library: Library,
}

impl Pfm {
    /// The library's run-time name; the plain `.so` is part of the development package.
    pub const SONAME: &'static str = "libpfm.so.4";

    /// Loads and starts the library.
    ///
    /// # Errors
    ///
    /// [`PfmError`] if libpfm4 is not installed or does not initialise.
    pub fn load() -> Result<Pfm, PfmError> {
        // SAFETY: libpfm4 has no initialisers beyond its own tables.
        let library =
            unsafe { Library::new(Self::SONAME) }.map_err(|error| PfmError::Missing(error.to_string()))?;
        let pfm = Pfm { library };
        // SAFETY: the symbol has this signature in every libpfm4 (perfmon/pfmlib.h).
        let status = unsafe {
            let initialize = pfm
                .library
                .get::<Initialize>(b"pfm_initialize\0")
                .map_err(|error| PfmError::Initialise(error.to_string()))?;
            initialize()
        };
        match status {
            0 => Ok(pfm),
            code => Err(PfmError::Initialise(pfm.message(code))),
        }
    }

    fn message(&self, code: c_int) -> String {
        // SAFETY: as above; the answer is a constant string.
        unsafe {
            match self.library.get::<StrError>(b"pfm_strerror\0") {
                Ok(strerror) => CStr::from_ptr(strerror(code)).to_string_lossy().into_owned(),
                Err(_) => format!("error {code}"),
            }
        }
    }

    /// The encoding of a name such as `MEM_LOAD_RETIRED:L2_MISS`.
    ///
    /// # Errors
    ///
    /// [`PfmError::Name`] if the library does not know the name on this processor.
    pub fn encode(&self, name: &str) -> Result<Encoding, PfmError> {
        let wanted = CString::new(name).map_err(|_| PfmError::Name("the name holds a zero byte".into()))?;
        let mut attr = PerfEventAttr::new(0, 0);
        let mut argument = EncodeArgument {
            attr: std::ptr::from_mut(&mut attr),
            fstr: std::ptr::null_mut(),
            size: size_of::<EncodeArgument>(),
            index: 0,
            cpu: -1,
            flags: 0,
            padding: 0,
        };
        // SAFETY: the signature of perfmon/pfmlib.h; `attr` says its size and outlives the call.
        let status = unsafe {
            let encode = self
                .library
                .get::<OsEncoding>(b"pfm_get_os_event_encoding\0")
                .map_err(|error| PfmError::Initialise(error.to_string()))?;
            encode(wanted.as_ptr(), ALL_LEVELS, OS_PERF_EVENT, std::ptr::from_mut(&mut argument))
        };
        if status != 0 {
            return Err(PfmError::Name(self.message(status)));
        }
        // Memory instructions have an address when sampled precisely; for other events the field is zero.
        let memory = name.to_ascii_uppercase().contains("MEM_");
        Ok(Encoding {
            event_type: attr.event_type,
            config: attr.config,
            config1: attr.config1,
            config2: attr.config2,
            data_address: memory,
            precise: if memory { 3 } else { 0 },
            ..Encoding::default()
        })
    }
}
