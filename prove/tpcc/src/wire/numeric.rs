//! Binary numeric: base-10,000 digits aligned at the decimal point (numeric_send, numeric_recv).

/// Appends a number: `unscaled` times 10^-`scale`.
pub(super) fn encode(unscaled: i64, scale: u8, buffer: &mut Vec<u8>) {
    let groups_behind = u32::from(scale).div_ceil(4);
    // Whole groups behind the point. A scale of at most 16 and an i64 stay far below the end of i128.
    let mut rest = i128::from(unscaled).unsigned_abs() * 10u128.pow(groups_behind * 4 - u32::from(scale));
    let mut digits = [0u16; 16];
    let mut at = digits.len();
    while rest > 0 {
        at -= 1;
        digits[at] = (rest % 10_000) as u16;
        rest /= 10_000;
    }
    let weight = (digits.len() - at) as i32 - groups_behind as i32 - 1;
    let mut digits = &digits[at..];
    while let [front @ .., 0] = digits {
        digits = front;
    }
    let weight = if digits.is_empty() { 0 } else { weight };
    buffer.extend_from_slice(&(digits.len() as u16).to_be_bytes());
    buffer.extend_from_slice(&(weight as i16).to_be_bytes());
    buffer.extend_from_slice(&if unscaled < 0 { [0x40, 0] } else { [0, 0] });
    buffer.extend_from_slice(&u16::from(scale).to_be_bytes());
    for digit in digits {
        buffer.extend_from_slice(&digit.to_be_bytes());
    }
}

/// The number times ten to the `scale`. `None` if it is not a number, has more places behind the point, or if it is too
/// large for an i64.
pub(super) fn decode(bytes: &[u8], scale: u8) -> Option<i64> {
    let field = |at: usize| Some(u16::from_be_bytes(bytes.get(at * 2..at * 2 + 2)?.try_into().ok()?));
    let (count, weight, sign) = (usize::from(field(0)?), field(1)? as i16, field(2)?);
    if !(sign == 0 || sign == 0x4000) || bytes.len() != 8 + 2 * count {
        return None; // NaN, infinities, or no numeric at all
    }
    let mut value = 0i128;
    for place in 0..count {
        let digit = i128::from(field(4 + place)?);
        if digit > 9_999 {
            return None;
        }
        if digit == 0 {
            continue;
        }
        // This digit has the value 10^(4 * (weight - place)); in units of the scale:
        let power = 4 * (i32::from(weight) - place as i32) + i32::from(scale);
        let part = if power >= 0 {
            // 10^30 exceeds any i64, and fits into i128.
            digit * 10i128.pow((power <= 30).then_some(power as u32)?)
        } else {
            let divisor = 10i128.pow((power >= -4).then_some(power.unsigned_abs())?);
            if digit % divisor != 0 {
                return None;
            }
            digit / divisor
        };
        value = value.checked_add(part)?;
    }
    i64::try_from(if sign == 0 { value } else { -value }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(unscaled: i64, scale: u8) -> Vec<u8> {
        let mut buffer = Vec::new();
        encode(unscaled, scale, &mut buffer);
        buffer
    }

    /// 16-bit fields: number of digits, weight, sign, scale, then the digits.
    fn fields(fields: &[u16]) -> Vec<u8> {
        fields.iter().flat_map(|field| field.to_be_bytes()).collect()
    }

    #[test]
    fn numbers_are_written_as_the_server_writes_them() {
        // As `SELECT encode(numeric_send(12345678.90), 'hex')` prints: 00030001000000021 04d2 162e 2328.
        assert_eq!(encoded(1_234_567_890, 2), fields(&[3, 1, 0, 2, 1234, 5678, 9000]));
        assert_eq!(encoded(-1_000, 2), fields(&[1, 0, 0x4000, 2, 10]));
        assert_eq!(encoded(0, 2), fields(&[0, 0, 0, 2]));
        assert_eq!(encoded(5, 2), fields(&[1, 0xffff, 0, 2, 500]));
        assert_eq!(encoded(1234, 4), fields(&[1, 0xffff, 0, 4, 1234]));
        assert_eq!(encoded(10_000, 0), fields(&[1, 1, 0, 0, 1]));
    }

    #[test]
    fn numbers_come_back() {
        for scale in [0, 1, 2, 4, 6, 16] {
            for number in
                [0, 1, -1, 5, 99, 100, -101, 3_000_000, 9_999, 10_000, i64::MAX, i64::MIN + 1, i64::MIN]
            {
                assert_eq!(decode(&encoded(number, scale), scale), Some(number), "{number} of scale {scale}");
            }
        }
        assert_eq!(decode(&encoded(150, 1), 2), Some(1_500), "15.0 in cents");
        assert_eq!(decode(&encoded(1_500, 4), 2), Some(15), "0.1500 in cents");
    }

    #[test]
    fn what_does_not_fit_is_told() {
        assert_eq!(decode(&encoded(1_234, 4), 2), None, "0.1234 in cents");
        assert_eq!(decode(&encoded(i64::MAX, 0), 2), None, "too large");
        assert_eq!(decode(&fields(&[0, 0, 0xc000, 0]), 2), None, "NaN");
        assert_eq!(decode(&fields(&[1, 0, 0, 0, 10_000]), 2), None, "no digit to that base");
        assert_eq!(decode(&fields(&[1, 0x7fff, 0, 0, 1]), 2), None, "far too large");
        assert_eq!(decode(&fields(&[1, 0x8000, 0, 0, 1]), 2), None, "far too small");
        assert_eq!(decode(&fields(&[2, 0, 0, 0, 1]), 2), None, "cut off");
        assert_eq!(decode(&[], 2), None);
    }
}
