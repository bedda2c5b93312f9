//! Amounts with a unit: read exactly, written in the canonical form.

use std::fmt;

/// Go's complaint about text that is no quantity.
pub const COMPLAINT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// An amount, and the family of units that it is written in.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The family of units that a quantity is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// Finer amounts are rounded up.
const FINEST: i32 = -9;
/// One, in the finest unit.
const ONE: i128 = 1_000_000_000;
/// The most that an amount with a binary unit comes to.
const MOST_BINARY: i128 = i64::MAX as i128 * ONE;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// Reads a quantity. `None` where the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let number = read(text)?;
        Some(Self { nanos: number.nanos(), format: number.format })
    }

    /// So many pieces.
    pub fn count(pieces: usize) -> Self {
        let nanos = i128::try_from(pieces).unwrap_or(i128::MAX).saturating_mul(ONE);
        Self { nanos, ..Self::ZERO }
    }

    /// The sum, written as this one is; where this one is nothing, as the other.
    pub fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        // The least number has no amount.
        Self { nanos: self.nanos.saturating_add(other.nanos).max(-i128::MAX), format }
    }

    /// The difference, but no less than nothing.
    pub fn less(self, other: Self) -> Self {
        match self.nanos > other.nanos {
            true => Self { nanos: self.nanos.saturating_sub(other.nanos), ..self },
            false => Self::ZERO,
        }
    }

    /// The amount in units of 10⁻⁹.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// The amount in units of 10⁻³, rounded away from zero.
    pub fn milli(self) -> i128 {
        scaled(self.nanos.abs(), -6) * self.nanos.signum()
    }

    /// The whole amount, rounded away from zero.
    pub fn whole(self) -> i128 {
        scaled(self.nanos.abs(), FINEST) * self.nanos.signum()
    }

    /// The same amount without a fraction, rounded away from zero.
    pub fn rounded(self) -> Self {
        Self { nanos: self.whole().saturating_mul(ONE), ..self }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Number::of(self.nanos, self.format).fmt(f)
    }
}

/// The canonical spelling: no fraction, the largest unit that needs none. `None` where the text is no quantity.
///
/// As Go has it, an amount for which no unit is large enough is spelled without one, and is another then.
pub fn canonical(text: &str) -> Option<String> {
    read(text).map(|number| number.to_string())
}

/// The amount in units of 10⁻⁹, rounded up, away from zero; it saturates far beyond 2⁶³.
pub fn nanos(text: &str) -> Option<i128> {
    read(text).map(|number| number.nanos())
}

/// A number as it is spelled, however large.
struct Number {
    negative: bool,
    /// Without zeros before them.
    digits: String,
    /// The power of ten of the last digit, no less than that of the finest unit.
    power: i64,
    format: Format,
}

impl Number {
    fn of(nanos: i128, format: Format) -> Self {
        let digits = if nanos == 0 { String::new() } else { nanos.unsigned_abs().to_string() };
        Self { negative: nanos < 0, digits, power: FINEST.into(), format }
    }

    /// The same in units that are kept, rounded away from zero.
    fn rounded(mut self) -> Self {
        let finer = usize::try_from(i64::from(FINEST).saturating_sub(self.power)).unwrap_or(0);
        if finer > 0 {
            let lost = self.digits.split_off(self.digits.len().saturating_sub(finer));
            if lost.bytes().any(|digit| digit != b'0') {
                increment(&mut self.digits);
            }
            self.power = FINEST.into();
        }
        self
    }

    fn nanos(&self) -> i128 {
        if self.digits.is_empty() {
            return 0;
        }
        let unit = u32::try_from(self.power - i64::from(FINEST)).ok().and_then(|power| 10_i128.checked_pow(power));
        let amount = self.digits.parse().ok().zip(unit).and_then(|(digits, unit): (i128, _)| digits.checked_mul(unit));
        let amount = amount.unwrap_or(i128::MAX);
        if self.negative { -amount } else { amount }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.digits.is_empty() {
            return f.write_str("0");
        }
        let nanos = self.nanos();
        // A binary amount below 1024, or one that is not whole, is written in decimal units.
        if self.format == Format::Binary && nanos % ONE == 0 && (nanos / ONE).abs() >= 1024 {
            let whole = nanos / ONE;
            return match BINARY.iter().rfind(|(_, power)| whole % (1 << power) == 0) {
                Some((name, power)) => write!(f, "{}{name}", whole >> power),
                None => write!(f, "{whole}"),
            };
        }
        let digits = self.digits.trim_end_matches('0');
        let power = self.power.saturating_add_unsigned((self.digits.len() - digits.len()) as u64);
        let zeros = power.rem_euclid(3);
        let power = power - zeros;
        f.write_str(if self.negative { "-" } else { "" })?;
        f.write_str(digits)?;
        (0..zeros).try_for_each(|_| f.write_str("0"))?;
        match (self.format, DECIMAL.iter().find(|(_, unit)| i64::from(*unit) == power)) {
            (Format::Exponent, _) if power != 0 => write!(f, "e{power}"),
            (Format::Exponent, _) | (_, None) => Ok(()),
            (_, Some((name, _))) => f.write_str(name),
        }
    }
}

/// The next number.
fn increment(digits: &mut String) {
    let nines = digits.len() - digits.trim_end_matches('9').len();
    digits.truncate(digits.len() - nines);
    let next = digits.pop().map_or('1', |last| char::from(last as u8 + 1));
    digits.push(next);
    digits.extend(std::iter::repeat_n('0', nines));
}

fn read(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    let number = unsigned.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, suffix) = unsigned.split_at(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return None;
    }
    let (format, power) = unit(suffix)?;
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if format == Format::Binary {
        let amount = binary(digits, fraction.len(), power);
        return Some(Number::of(if negative { -amount } else { amount }, format));
    }
    let power = power.checked_sub_unsigned(fraction.len() as u64)?;
    // Nothing has no digits, whatever its unit.
    let power = if digits.is_empty() { 0 } else { power };
    Some(Number { negative, digits: digits.into(), power, format }.rounded())
}

/// So many digits, of which some are a fraction, times a power of two, in units of 10⁻⁹. It is capped.
fn binary(digits: &str, places: usize, power: i64) -> i128 {
    // With more digits than can be reckoned with, the last of the fraction only round it up.
    let cut = digits.len().saturating_sub(20).min(places);
    let digits = &digits[..digits.len() - cut];
    let mantissa = match digits.parse() {
        Ok(mantissa) => mantissa,
        Err(_) if digits.is_empty() => 0,
        // Beyond the cap.
        Err(_) => i128::MAX,
    };
    let mantissa = mantissa.saturating_add(i128::from(cut > 0)).saturating_mul(1 << power);
    // No more than 20 digits are left behind the point where any are before it, and fewer than those of the text.
    let places = i32::try_from(places - cut).unwrap_or(i32::MAX);
    scaled(mantissa, -places - FINEST).min(MOST_BINARY)
}

/// The unit and its power, of two or of ten.
fn unit(suffix: &str) -> Option<(Format, i64)> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Binary, (*power).into()));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Decimal, (*power).into()));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    // Go keeps the low half of it.
    let power: i64 = exponent.parse().ok()?;
    Some((Format::Exponent, i64::from(power as i32)))
}

/// `mantissa` · 10^`power`, rounded away from zero.
fn scaled(mantissa: i128, power: i32) -> i128 {
    match u32::try_from(power) {
        Ok(power) => 10_i128.checked_pow(power).map_or(i128::MAX / 2, |factor| mantissa.saturating_mul(factor)),
        Err(_) => match 10_i128.checked_pow(power.unsigned_abs()) {
            Some(divisor) => mantissa / divisor + i128::from(mantissa % divisor != 0),
            None => i128::from(mantissa != 0),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_written_in_their_canonical_form() {
        for (text, canon) in [
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("2000", "2k"),
            ("1e3", "1e3"),
            ("1E", "1E"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("100m", "100m"),
            ("0", "0"),
            ("0Gi", "0"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("-1.5", "-1500m"),
            ("+3", "3"),
            (".5", "500m"),
            ("1.", "1"),
            ("1234567", "1234567"),
            ("0.0000000001", "1n"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("12e4", "120e3"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(canon), "{text}");
        }
        let (zeros, nines) = ("0".repeat(27), "9".repeat(60));
        for (text, canon) in [
            (format!("1.{zeros}"), "1"),
            (format!("-1.{zeros}"), "-1"),
            (format!("1.{zeros}1"), "1000000001n"),
            (format!("-1.{zeros}1"), "-1000000001n"),
            (format!("0.{zeros}1"), "1n"),
            (format!("1{zeros}n"), "1E"),
            (format!("-1{zeros}"), "-1"),
            (format!("1{zeros}m"), "1"),
            (format!("1.{zeros}Ei"), "1Ei"),
            (format!("{zeros}1.5"), "1500m"),
            ("123456789.123456789123456789123456".into(), "123456789123456790n"),
            ("12345678901234567890123456789012n".into(), "12345678901234567890123456789012n"),
            // What no unit is large enough for is written in none.
            ("10000E".into(), "10"),
            ("1000E".into(), "1"),
            ("12345E".into(), "12345E"),
            ("1e27".into(), "1e27"),
            ("1e28".into(), "10e27"),
            ("-1e31".into(), "-10e30"),
            ("1e2147483646".into(), "1e2147483646"),
            ("1e9223372036854775807".into(), "100e-3"),
            ("1e-31".into(), "1e-9"),
            ("0e99".into(), "0"),
            ("1000e-12".into(), "1e-9"),
            ("9999999999999999999999999999".into(), "9999999999999999999999999999"),
            (nines.clone(), &*nines),
            (format!("0.{nines}"), "1"),
            // Binary amounts are capped.
            ("7Ei".into(), "7Ei"),
            ("8Ei".into(), "9223372036854775807"),
            ("-100Ei".into(), "-9223372036854775807"),
            ("9007199254740991Ki".into(), "9007199254740991Ki"),
            ("9007199254740993Ki".into(), "9223372036854775807"),
            ("9223372036854775.807Ki".into(), "9223372036854775807"),
            (format!("{nines}Ki"), "9223372036854775807"),
        ] {
            assert_eq!(canonical(&text).as_deref(), Some(canon), "{text}");
        }
        for text in [nines.clone(), "1e30".into(), format!("1{zeros}{zeros}.5")] {
            let (amount, negative) = (nanos(&text).unwrap(), nanos(&format!("-{text}")).unwrap());
            assert!(amount > i128::MAX / 2 && negative == -amount, "{text}: {amount}, {negative}");
            let twice = Quantity::parse(&format!("-{text}")).map(|all| all.plus(all));
            assert!(twice.is_some_and(|all| all.whole() < 0));
        }
        assert_eq!(canonical(&format!("1{zeros}x")), None);
        for text in ["", "x", "1.2.3", "1 Gi", "1gi", "Gi", "1e", "--1", "1Kib"] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn a_sum_keeps_the_units_of_what_was_there_first() {
        let quantity = |text| Quantity::parse(text).unwrap();
        for (a, b, sum, difference) in [
            ("1Gi", "512Mi", "1536Mi", "512Mi"),
            ("1G", "1Gi", "2073741824", "0"),
            ("0", "1Gi", "1Gi", "0"),
            ("1", "300m", "1300m", "700m"),
        ] {
            assert_eq!(quantity(a).plus(quantity(b)).to_string(), sum, "{a} + {b}");
            assert_eq!(quantity(a).less(quantity(b)).to_string(), difference, "{a} - {b}");
        }
        assert_eq!((quantity("1500u").milli(), quantity("1100m").whole()), (2, 2));
        assert_eq!((quantity("-1500u").milli(), quantity("1100m").rounded().to_string()), (-2, "2".into()));
        assert_eq!(Quantity::count(3).to_string(), "3");
    }

    proptest! {
        #[test]
        fn a_canonical_quantity_is_the_same_amount_and_stays_as_it_is(
            number in -1_000_000_000_i64..1_000_000_000,
            unit in proptest::sample::select(vec!["", "m", "u", "k", "M", "G", "Ki", "Mi", "Gi", "e3"]),
        ) {
            let text = format!("{number}{unit}");
            let canon = canonical(&text).unwrap();
            prop_assert_eq!(nanos(&canon), nanos(&text));
            prop_assert_eq!(canonical(&canon), Some(canon));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+0-9.eEinumkKMGTP]{0,40}") {
            canonical(&text);
        }
    }
}
