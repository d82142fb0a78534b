//! The C interface of `hardmeter-evidence`; `include/hm_evidence.h` documents it.
//!
//! Pointers come from C: each function documents its requirements. No panic crosses the boundary: functions that
//! can fail return a number or a null pointer.

use hardmeter_evidence::{Interval, Median, Plan, Sample, Share, Trial, Verdict};
use std::ffi::{c_char, c_double, c_int, CStr, CString};

/// The C view of a trial.
pub struct HmTrial(Trial);

/// `hm_trial_new` of `hm_evidence.h`.
///
/// # Safety
/// `plan` is a string that ends with 0; `message` is null or has room for `message_size` bytes.
#[no_mangle]
pub unsafe extern "C" fn hm_trial_new(
    plan: *const c_char,
    message: *mut c_char,
    message_size: usize,
) -> *mut HmTrial {
    // SAFETY: by this function's own contract.
    let made = unsafe { text(plan) }.and_then(|plan| {
        let plan: Plan = serde_json::from_str(plan).map_err(|error| error.to_string())?;
        Trial::new(plan).map_err(|error| error.to_string())
    });
    // SAFETY: the same.
    unsafe { hand_out(made, message, message_size) }
}

/// `hm_trial_resume` of `hm_evidence.h`.
///
/// # Safety
/// As of [`hm_trial_new`].
#[no_mangle]
pub unsafe extern "C" fn hm_trial_resume(
    state: *const c_char,
    message: *mut c_char,
    message_size: usize,
) -> *mut HmTrial {
    // SAFETY: by this function's own contract.
    let made = unsafe { text(state) }
        .and_then(|state| serde_json::from_str(state).map_err(|error| error.to_string()));
    // SAFETY: the same.
    unsafe { hand_out(made, message, message_size) }
}

/// `hm_trial_free` of `hm_evidence.h`.
///
/// # Safety
/// `trial` is null or came from [`hm_trial_new`] or [`hm_trial_resume`], and is used no more.
#[no_mangle]
pub unsafe extern "C" fn hm_trial_free(trial: *mut HmTrial) {
    if !trial.is_null() {
        // SAFETY: it was made by Box::into_raw, once, and this is its end.
        drop(unsafe { Box::from_raw(trial) });
    }
}

/// `hm_trial_next` of `hm_evidence.h`.
///
/// # Safety
/// `trial` is null or a live trial.
#[no_mangle]
pub unsafe extern "C" fn hm_trial_next(trial: *const HmTrial) -> c_int {
    // SAFETY: by this function's own contract.
    let next = unsafe { trial.as_ref() }.and_then(|trial| trial.0.next());
    next.and_then(|next| c_int::try_from(next).ok()).unwrap_or(-1)
}

/// `hm_trial_observe` of `hm_evidence.h`.
///
/// # Safety
/// `trial` is null or a live trial that no other thread uses; `values` has `count` values.
#[no_mangle]
pub unsafe extern "C" fn hm_trial_observe(
    trial: *mut HmTrial,
    contestant: c_int,
    values: *const c_double,
    count: usize,
) -> c_int {
    // SAFETY: by this function's own contract.
    let (trial, values) = unsafe { (trial.as_mut(), slice(values, count)) };
    let (Some(trial), Ok(contestant)) = (trial, usize::try_from(contestant)) else { return -1 };
    trial.0.observe(contestant, values).map_or(-1, |()| 0)
}

/// `hm_trial_verdict` of `hm_evidence.h`.
///
/// # Safety
/// `trial` is null or a live trial.
#[no_mangle]
pub unsafe extern "C" fn hm_trial_verdict(trial: *const HmTrial, contestant: c_int) -> c_int {
    // SAFETY: by this function's own contract.
    let trial = unsafe { trial.as_ref() };
    let verdict = trial.zip(usize::try_from(contestant).ok()).map(|(trial, one)| trial.0.verdict_on(one));
    match verdict.unwrap_or(Verdict::Undecided) {
        Verdict::Better => 0,
        Verdict::Worse => 1,
        Verdict::Same => 2,
        Verdict::Undecided => 3,
    }
}

/// `hm_trial_standings` of `hm_evidence.h`.
///
/// # Safety
/// `trial` is null or a live trial.
#[no_mangle]
pub unsafe extern "C" fn hm_trial_standings(trial: *const HmTrial) -> *mut c_char {
    // SAFETY: by this function's own contract.
    string(unsafe { trial.as_ref() }.and_then(|trial| serde_json::to_string(&trial.0.standings()).ok()))
}

/// `hm_trial_state` of `hm_evidence.h`.
///
/// # Safety
/// `trial` is null or a live trial.
#[no_mangle]
pub unsafe extern "C" fn hm_trial_state(trial: *const HmTrial) -> *mut c_char {
    // SAFETY: by this function's own contract.
    string(unsafe { trial.as_ref() }.and_then(|trial| serde_json::to_string(&trial.0).ok()))
}

/// `hm_string_free` of `hm_evidence.h`.
///
/// # Safety
/// `string` is null or came from a function of this library, and is used no more.
#[no_mangle]
pub unsafe extern "C" fn hm_string_free(string: *mut c_char) {
    if !string.is_null() {
        // SAFETY: it was made by CString::into_raw, once, and this is its end.
        drop(unsafe { CString::from_raw(string) });
    }
}

/// `hm_median` of `hm_evidence.h`.
///
/// # Safety
/// `values` has `count` values; the other pointers are null or have room for a number.
#[no_mangle]
pub unsafe extern "C" fn hm_median(
    values: *const c_double,
    count: usize,
    median: *mut c_double,
    low: *mut c_double,
    high: *mut c_double,
) -> c_int {
    // SAFETY: by this function's own contract.
    let found = Median::of(unsafe { slice(values, count) });
    // SAFETY: the same.
    unsafe {
        write(found.map(|found| found.value), found.and_then(|found| found.interval_95), median, low, high)
    }
}

/// `hm_mean` of `hm_evidence.h`.
///
/// # Safety
/// As of [`hm_median`].
#[no_mangle]
pub unsafe extern "C" fn hm_mean(
    values: *const c_double,
    count: usize,
    mean: *mut c_double,
    low: *mut c_double,
    high: *mut c_double,
) -> c_int {
    // SAFETY: by this function's own contract.
    let sample = Sample::of(unsafe { slice(values, count) });
    // SAFETY: the same.
    unsafe { write((sample.n > 0).then_some(sample.mean), sample.interval(), mean, low, high) }
}

/// `hm_share` of `hm_evidence.h`.
///
/// # Safety
/// `low` and `high` are null or have room for a number.
#[no_mangle]
pub unsafe extern "C" fn hm_share(count: u64, total: u64, low: *mut c_double, high: *mut c_double) -> c_int {
    let interval = Share { count: count.min(total), total }.interval();
    // SAFETY: by this function's own contract.
    unsafe { write(interval.map(|interval| interval.low), interval, std::ptr::null_mut(), low, high) }.min(1)
}

/// # Safety
/// `from` is null or a string that ends with 0, and lives as long as the returned text.
unsafe fn text<'a>(from: *const c_char) -> Result<&'a str, String> {
    if from.is_null() {
        return Err("no text".into());
    }
    // SAFETY: by this function's own contract.
    unsafe { CStr::from_ptr(from) }.to_str().map_err(|error| error.to_string())
}

/// # Safety
/// `values` is null or has `count` values that live as long as the returned slice.
unsafe fn slice<'a>(values: *const c_double, count: usize) -> &'a [f64] {
    if values.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: by this function's own contract.
    unsafe { std::slice::from_raw_parts(values, count) }
}

/// # Safety
/// `message` is null or has room for `size` bytes.
unsafe fn hand_out(made: Result<Trial, String>, message: *mut c_char, size: usize) -> *mut HmTrial {
    let reason = match made {
        Ok(trial) => return Box::into_raw(Box::new(HmTrial(trial))),
        Err(reason) => reason,
    };
    if !message.is_null() && size > 0 {
        let length = reason.len().min(size - 1);
        // SAFETY: there is room for `size` bytes, of which `length` + 1 are written.
        unsafe {
            std::ptr::copy_nonoverlapping(reason.as_ptr().cast(), message, length);
            *message.add(length) = 0;
        }
    }
    std::ptr::null_mut()
}

fn string(text: Option<String>) -> *mut c_char {
    text.and_then(|text| CString::new(text).ok()).map_or(std::ptr::null_mut(), CString::into_raw)
}

/// # Safety
/// The pointers are null or have room for a number.
unsafe fn write(
    value: Option<f64>,
    interval: Option<Interval>,
    to: *mut c_double,
    low: *mut c_double,
    high: *mut c_double,
) -> c_int {
    let ends = [(value, to), (interval.map(|ends| ends.low), low), (interval.map(|ends| ends.high), high)];
    for (number, place) in ends {
        if let (Some(number), false) = (number, place.is_null()) {
            // SAFETY: by this function's own contract.
            unsafe { *place = number };
        }
    }
    c_int::from(value.is_some()) + c_int::from(interval.is_some())
}
