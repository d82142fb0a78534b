//! Parses times: 90s, 10m, 1h30m; 14:30, @1790000000, +30s.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A duration: 90s, 10m, 2h, 1h30m, 500ms; a number without a unit is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time: write 90s, 10m, 1h30m or 500ms");
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        seconds += number
            * match &rest[..unit] {
                "us" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(wrong()),
            };
        rest = &rest[unit..];
    }
    match text.is_empty() {
        true => Err(wrong()),
        false => Duration::try_from_secs_f64(seconds).map_err(|_| wrong()),
    }
}

/// A duration that is not nothing.
pub(crate) fn some_duration(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|length| match length.is_zero() {
        true => Err("it must be longer than 0".into()),
        false => Ok(length),
    })
}

/// A time in microseconds since 1970: `+30s` from now, `@SECONDS` since 1970, or `14:30[:05]`, the next occurrence
/// on this machine's clock.
pub(crate) fn moment(text: &str) -> Result<u64, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if let Some(length) = text.strip_prefix('+') {
        return Ok((now + duration(length)?).as_micros() as u64);
    }
    let wrong = || format!("invalid time '{text}': write 14:30, 14:30:05, +30s or @SECONDS since 1970");
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds: f64 = seconds.parse().map_err(|_| wrong())?;
        let moment = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        return match moment < now {
            true => Err(format!("{text} is over already")),
            false => Ok(moment.as_micros() as u64),
        };
    }
    let parts: Vec<i32> = text.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return Err(wrong()),
    };
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return Err(wrong());
    }
    let today = at_local(now.as_secs() as i64, 0, (hour, minute, second));
    let moment = if today >= now.as_secs() as i64 {
        today
    } else {
        at_local(now.as_secs() as i64, 1, (hour, minute, second))
    };
    Ok(moment as u64 * 1_000_000)
}

/// Seconds since 1970 of a time of day, a number of days after `moment`, by this machine's clock.
fn at_local(moment: i64, days: i32, (hour, minute, second): (i32, i32, i32)) -> i64 {
    let mut parts = local(moment);
    parts.tm_mday += days;
    (parts.tm_hour, parts.tm_min, parts.tm_sec) = (hour, minute, second);
    parts.tm_isdst = -1; // let the C library determine daylight saving time
                         // SAFETY: mktime takes any values and normalizes them.
    unsafe { libc::mktime(&mut parts) }
}

/// A time by this machine's clock: 20261122-143005.
pub(crate) fn stamp(moment: SystemTime) -> String {
    let seconds = moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let parts = local(seconds as i64);
    let [year, month] = [parts.tm_year + 1900, parts.tm_mon + 1];
    let (day, hour, minute, second) = (parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

fn local(moment: i64) -> libc::tm {
    // SAFETY: tm is a plain C structure, for which all zeroes is a value; both pointers are to live variables.
    unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&moment, &mut parts);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_units() {
        let seconds = |text| duration(text).unwrap().as_secs_f64();
        assert_eq!(seconds("90s"), 90.0);
        assert_eq!(seconds("10m"), 600.0);
        assert_eq!(seconds("1h30m"), 5400.0);
        assert_eq!(seconds("500ms"), 0.5);
        assert_eq!(seconds("2.5"), 2.5);
        assert_eq!(seconds("1d"), 86_400.0);
        for wrong in ["", "s", "10x", "-3s", "5 m", "1e99h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(some_duration("0s").is_err());
    }

    #[test]
    fn moments_are_in_the_future_and_show_what_was_asked_for() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        let later = moment("+30s").unwrap();
        assert!((now + 30_000_000..now + 90_000_000).contains(&later));
        let noon = moment("12:00").unwrap();
        assert!(noon + 1_000_000 > now && noon < now + 26 * 3_600_000_000);
        let shown = stamp(UNIX_EPOCH + Duration::from_micros(noon));
        assert!(shown.ends_with("-120000"), "{shown}");
        assert_eq!(moment("@99999999999").unwrap(), 99_999_999_999_000_000);
        for wrong in ["@5", "25:00", "12", "noon", "12:00:61"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }
}
