//! Resource quantities.

use std::cmp::Ordering;
use std::fmt;

use crate::error::Failure;

const WRONG_FORM: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_UNIT: &str = "unable to parse quantity's suffix";
const ONE: i128 = 1_000_000_000;

/// A Kubernetes quantity, such as `100m` or `2Gi`.
///
/// As in Go, a quantity is stored as a 64-bit integer with a decimal scale, or as a larger decimal number. Only the
/// 64-bit form can be converted to an integer. Amounts are limited to about 10²⁹.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// The amount is `value` · 10^`scale`.
    Scaled {
        /// The integer that is multiplied by a power of ten.
        value: i64,
        /// The exponent of the power of ten.
        scale: i32,
    },
    /// The amount in units of 10⁻⁹.
    Nanos(i128),
}

impl Quantity {
    pub(crate) fn nanos(self) -> i128 {
        match self {
            Self::Nanos(nanos) => nanos,
            Self::Scaled { value, scale } => {
                let factor = u32::try_from(i64::from(scale) + 9).ok().and_then(|power| 10_i128.checked_pow(power));
                let amount = factor.and_then(|factor| i128::from(value).checked_mul(factor));
                amount.unwrap_or(if value < 0 { i128::MIN } else { i128::MAX })
            }
        }
    }

    /// Returns the amount as an integer. As in Go, returns `None` for an amount with digits after the decimal point,
    /// even if these digits are zeros.
    pub(crate) fn integer(self) -> Option<i64> {
        match self {
            Self::Scaled { value, scale } => {
                let power = u32::try_from(scale).ok()?;
                if value == 0 {
                    return Some(0);
                }
                value.checked_mul(10_i64.checked_pow(power)?)
            }
            Self::Nanos(_) => None,
        }
    }

    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Scaled { value, scale: 0 } => value as f64,
            Self::Scaled { value, scale } => value as f64 * 10_f64.powi(scale),
            Self::Nanos(nanos) if nanos % ONE == 0 => (nanos / ONE) as f64,
            Self::Nanos(nanos) => {
                let (mut digits, mut scale) = (nanos, -9);
                while digits % 10 == 0 {
                    (digits, scale) = (digits / 10, scale + 1);
                }
                digits as f64 * 10_f64.powi(scale)
            }
        }
    }

    pub(crate) fn cmp(self, other: &Self) -> Ordering {
        self.nanos().cmp(&other.nanos())
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let sum = || Self::Nanos(self.nanos().saturating_add(other.nanos()));
        match (self, other) {
            (_, Self::Scaled { value: 0, .. }) => self,
            (Self::Scaled { value: 0, .. }, _) => other,
            (Self::Scaled { value: left, scale }, Self::Scaled { value: right, scale: finer }) => {
                let lowest = scale.min(finer);
                let scaled = |value: i64, scale: i32| {
                    let power = u32::try_from(i64::from(scale) - i64::from(lowest)).ok()?;
                    value.checked_mul(10_i64.checked_pow(power)?)
                };
                let value =
                    scaled(left, scale).zip(scaled(right, finer)).and_then(|(left, right)| left.checked_add(right));
                value.map_or_else(sum, |value| Self::Scaled { value, scale: lowest })
            }
            _ => sum(),
        }
    }

    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Scaled { value, scale } => match value.checked_neg() {
                Some(value) => Self::Scaled { value, scale },
                None => Self::Nanos(self.nanos().saturating_neg()),
            },
            Self::Nanos(nanos) => Self::Nanos(nanos.saturating_neg()),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.nanos();
        write!(f, "{}{}", if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs() / ONE as u128)?;
        match nanos.unsigned_abs() % ONE as u128 {
            0 => Ok(()),
            fraction => write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0')),
        }
    }
}

/// Returns the base and the exponent of a unit suffix such as `Ki`.
fn unit(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "" => (10, 0),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).filter(|exponent| !exponent.is_empty())?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            (10, valid.then(|| exponent.parse().ok()).flatten()?)
        }
    })
}

pub(crate) fn parse(text: &str) -> Result<Quantity, Failure> {
    let wrong = |message: &str| Failure::new(message);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    if text.is_empty() {
        return Err(wrong(WRONG_FORM));
    }
    let digits_end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = unsigned.split_at(digits_end(unsigned));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => after.split_at(digits_end(after)),
        None => ("", rest),
    };
    let letters = rest.find(|c: char| !"eEinumkKMGTP".contains(c)).unwrap_or(rest.len());
    let after = rest[letters..].strip_prefix(['+', '-']).unwrap_or(&rest[letters..]);
    if digits_end(after) != after.len() {
        return Err(wrong(WRONG_FORM));
    }
    let (base, exponent) = unit(rest).ok_or_else(|| wrong(WRONG_UNIT))?;
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let amount = small(whole, fraction, base, exponent).unwrap_or_else(|| large(whole, fraction, base, exponent));
    Ok(if negative { amount.negated() } else { amount })
}

/// Returns the amount as a 64-bit integer with a scale, or `None` if Go stores the amount as a larger decimal number.
fn small(whole: &str, fraction: &str, base: u32, exponent: i32) -> Option<Quantity> {
    let (precision, scale, mantissa) = match base {
        10 => (18 - (whole.len() + fraction.len()) as i64, exponent, 1),
        _ if fraction.is_empty() => {
            let digits = (exponent as f32 * 3.0 / 10.0) as i64;
            (15 - whole.len() as i64 - digits - 1, 0, 1_i64.checked_shl(exponent as u32)?)
        }
        _ => return None,
    };
    let scale = scale.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    if precision < 0 || scale < -9 {
        return None;
    }
    let value: i64 = format!("{whole}{fraction}").parse().ok()?;
    value.checked_mul(mantissa).map(|value| Quantity::Scaled { value, scale })
}

/// Returns the amount in units of 10⁻⁹, rounded up.
fn large(whole: &str, fraction: &str, base: u32, exponent: i32) -> Quantity {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let power = i64::from(if base == 10 { exponent } else { 0 }) - fraction.len() as i64 + 9;
    let binary = if base == 2 { 1_i128 << exponent } else { 1 };
    let scaled = |digits: &str| digits.parse::<i128>().ok().and_then(|number| number.checked_mul(binary));
    let nanos = match (digits.is_empty(), usize::try_from(power)) {
        (true, _) => Some(0),
        (_, Ok(power)) => {
            let factor = u32::try_from(power).ok().and_then(|power| 10_i128.checked_pow(power));
            scaled(digits).zip(factor).and_then(|(number, factor)| number.checked_mul(factor))
        }
        (_, Err(_)) => {
            // Use at most 30 digits, because any further digits can only round the result up.
            let finer = usize::try_from(-power).unwrap_or(usize::MAX);
            let kept = digits.len().min(30);
            let lost = digits.len() - kept;
            let divisor = u32::try_from(finer.saturating_sub(lost)).ok().and_then(|power| 10_i128.checked_pow(power));
            let number = scaled(&digits[..kept]);
            match (number, divisor) {
                (Some(number), Some(divisor)) if finer >= lost => {
                    let rounds = number % divisor != 0 || digits[kept..].bytes().any(|digit| digit != b'0');
                    Some(number / divisor + i128::from(rounds))
                }
                (Some(_), None) => Some(1),
                _ => None,
            }
        }
    };
    let limit = if base == 2 { i128::from(i64::MAX) * ONE } else { i128::MAX };
    Quantity::Nanos(nanos.unwrap_or(i128::MAX).min(limit))
}
