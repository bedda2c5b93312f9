//! Parses resource quantities exactly, and formats them in Go's canonical form.

use std::fmt;

pub(crate) const WRONG_FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_NUMBER: &str = "unable to parse numeric part of quantity";
const WRONG_UNIT: &str = "unable to parse quantity's suffix";

/// A Kubernetes quantity, such as `500m` or `1Gi`, stored as an amount and the format of its unit.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Binary,
    Decimal,
    Exponent,
}

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// The exponent of the smallest unit, 10⁻⁹. Fractions of this unit are rounded up.
const FINEST: i64 = -9;
/// The exponent of the smallest unit in a `ResourceList`, 10⁻³.
const MILLI: i64 = -3;
/// The amount 1, in units of 10⁻⁹.
const ONE: i128 = 1_000_000_000;
/// The maximum amount of a quantity with a binary unit, in units of 10⁻⁹.
const MAX_BINARY: i128 = i64::MAX as i128 * ONE;

impl Quantity {
    /// The quantity 0.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// Parses a quantity. Returns `None` if the text is not a quantity.
    pub fn parse(text: &str) -> Option<Self> {
        let number = read(text).ok()?;
        Some(Self { nanos: number.nanos(), format: number.format })
    }

    /// Creates a quantity from an integer.
    pub fn count(pieces: usize) -> Self {
        let nanos = i128::try_from(pieces).unwrap_or(i128::MAX).saturating_mul(ONE);
        Self { nanos, ..Self::ZERO }
    }

    /// Returns the sum of two quantities. The sum has the format of `self`, or the format of `other` if `self` is zero.
    pub fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        // Avoid `i128::MIN`, whose absolute value overflows.
        Self { nanos: self.nanos.saturating_add(other.nanos).max(-i128::MAX), format }
    }

    /// Returns `self - other`, or zero if the difference is negative.
    pub fn less(self, other: Self) -> Self {
        if self.nanos > other.nanos {
            Self { nanos: self.nanos.saturating_sub(other.nanos), ..self }
        } else {
            Self::ZERO
        }
    }

    /// Returns the amount in nano-units (10⁻⁹).
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the amount in milli-units (10⁻³), rounded away from zero.
    pub fn milli(self) -> i128 {
        scaled(self.nanos.abs(), -6) * self.nanos.signum()
    }

    /// Returns the amount as an integer, rounded away from zero.
    pub fn whole(self) -> i128 {
        scaled(self.nanos.abs(), -9) * self.nanos.signum()
    }

    /// Rounds the amount to an integer, away from zero.
    pub fn rounded(self) -> Self {
        Self { nanos: self.whole().saturating_mul(ONE), ..self }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Number::of(self.nanos, self.format).fmt(f)
    }
}

/// Parses a quantity and formats it like Go. Returns `None` if `text` is not a quantity.
///
/// If the exponent is a multiple of three, Go leaves most quantities unchanged, such as `1E3`, `+1` and `1.500`. Go
/// writes all other quantities with the largest unit that does not require a fraction. Go omits the unit, and so
/// changes the amount, if no unit is large enough.
pub fn canonical(text: &str) -> Option<String> {
    written(text).ok()
}

/// Parses and formats a quantity like [`canonical`].
///
/// # Errors
///
/// Returns Go's error message if `text` is not a quantity. Spaces around the quantity are allowed.
pub fn written(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let number = read(text)?;
    Ok(if number.kept { text.into() } else { number.to_string() })
}

/// Formats a quantity in the form that kube-apiserver stores in a `ResourceList`. The amount is rounded away from zero
/// to a multiple of `1m`.
///
/// # Errors
///
/// Returns the same errors as [`written`].
pub fn written_in_list(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let number = read(text)?;
    let kept = number.kept && number.written_power >= MILLI;
    Ok(if kept { text.into() } else { number.rounded(MILLI).to_string() })
}

/// Parses a quantity and returns its amount in units of 10⁻⁹, rounded away from zero. Returns `None` if `text` is not a
/// quantity. If the amount does not fit into an `i128`, returns `i128::MAX`, or `-i128::MAX` for a negative amount.
pub fn nanos(text: &str) -> Option<i128> {
    read(text).ok().map(|number| number.nanos())
}

/// A number of any size, stored as decimal digits.
struct Number {
    negative: bool,
    /// The decimal digits of the number, without leading zeros.
    digits: String,
    /// The decimal exponent of the last digit, at least [`FINEST`].
    power: i64,
    format: Format,
    /// If `true`, Go writes the number as the text from which it was parsed.
    kept: bool,
    /// The exponent of the last digit in the parsed text, before rounding.
    written_power: i64,
}

impl Number {
    fn of(nanos: i128, format: Format) -> Self {
        let digits = if nanos == 0 { String::new() } else { nanos.unsigned_abs().to_string() };
        Self { negative: nanos < 0, digits, power: FINEST, format, kept: false, written_power: FINEST }
    }

    /// Rounds the amount away from zero to a multiple of 10^`finest`.
    fn rounded(mut self, finest: i64) -> Self {
        let finer = usize::try_from(finest.saturating_sub(self.power)).unwrap_or(0);
        if finer > 0 {
            let lost = self.digits.split_off(self.digits.len().saturating_sub(finer));
            if lost.bytes().any(|digit| digit != b'0') {
                increment(&mut self.digits);
            }
            self.power = finest;
        }
        self
    }

    fn nanos(&self) -> i128 {
        if self.digits.is_empty() {
            return 0;
        }
        let unit = u32::try_from(self.power - FINEST).ok().and_then(|power| 10_i128.checked_pow(power));
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
        // Quantities with a binary unit are written with a decimal unit if the amount is below 1024 or has a fraction.
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

fn increment(digits: &mut String) {
    let nines = digits.len() - digits.trim_end_matches('9').len();
    digits.truncate(digits.len() - nines);
    let next = digits.pop().map_or('1', |last| char::from(last as u8 + 1));
    digits.push(next);
    digits.extend(std::iter::repeat_n('0', nines));
}

struct Parts<'a> {
    negative: bool,
    /// The digits before the decimal point, without leading zeros. `whole` is `0` if all digits are zeros.
    whole: &'a str,
    fraction: &'a str,
    unit: &'a str,
    /// `true` if the text contains a digit. Go accepts some quantities without digits.
    has_digits: bool,
}

fn split(text: &str) -> Option<Parts<'_>> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = digits(unsigned);
    let (fraction, unit) = rest.strip_prefix('.').map_or(("", rest), digits);
    let power = unit.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let (_, end) = digits(power.strip_prefix(['+', '-']).unwrap_or(power));
    let has_digits = whole.len() + fraction.len() > 0;
    let whole = Some(whole.trim_start_matches('0')).filter(|whole| !whole.is_empty()).unwrap_or("0");
    let parts = Parts { negative: text.starts_with('-'), whole, fraction, unit, has_digits };
    (!text.is_empty() && end.is_empty()).then_some(parts)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn read(text: &str) -> Result<Number, &'static str> {
    let parts = split(text).ok_or(WRONG_FORM)?;
    let (format, unit_power) = unit(parts.unit).ok_or(WRONG_UNIT)?;
    let all = format!("{}{}", parts.whole, parts.fraction);
    let written_power = match format {
        Format::Binary => 0,
        _ => unit_power.saturating_sub_unsigned(parts.fraction.len() as u64),
    };
    let short = is_short(&parts, format, unit_power) && written_power >= FINEST;
    if !short && !parts.has_digits {
        return Err(WRONG_NUMBER);
    }
    let kept = short
        && match format {
            Format::Binary => all.parse::<u64>().is_ok_and(|number| !number.is_multiple_of(8)),
            _ => written_power % 3 == 0 && !all.ends_with("000") && !all.starts_with('0'),
        };
    let fraction = parts.fraction.trim_end_matches('0');
    let digits = format!("{}{fraction}", parts.whole);
    let digits = digits.trim_start_matches('0');
    if format == Format::Binary {
        let amount = binary(digits, fraction.len(), unit_power);
        let number = Number::of(if parts.negative { -amount } else { amount }, format);
        return Ok(Number { kept, written_power, ..number });
    }
    let power = unit_power.saturating_sub_unsigned(fraction.len() as u64);
    // If the amount is zero, `digits` is empty, so the exponent of the unit has no effect.
    let power = if digits.is_empty() { 0 } else { power };
    let number = Number { negative: parts.negative, digits: digits.into(), power, format, kept, written_power };
    Ok(number.rounded(FINEST))
}

/// Returns `true` if Go parses the number into a 64-bit integer. Go keeps the original text of such a number.
fn is_short(parts: &Parts<'_>, format: Format, unit_power: i64) -> bool {
    match format {
        Format::Binary => {
            let spare = 14 - unit_power * 3 / 10;
            parts.fraction.is_empty() && parts.whole.len() as i64 <= spare
        }
        Format::Decimal | Format::Exponent => parts.whole.len() + parts.fraction.len() <= 18,
    }
}

/// Returns the amount of a quantity with a binary unit, in units of 10⁻⁹ and capped at [`MAX_BINARY`]. The last
/// `places` digits are the fraction, and `power` is the exponent of two.
fn binary(digits: &str, places: usize, power: i64) -> i128 {
    // Round up if the fraction has more digits than `i128` can represent.
    let max_digits = usize::try_from((127 - power) * 30103 / 100_000).unwrap_or(20);
    let cut = digits.len().saturating_sub(max_digits).min(places);
    let digits = &digits[..digits.len() - cut];
    let mantissa = match digits.parse() {
        Ok(mantissa) => mantissa,
        Err(_) if digits.is_empty() => 0,
        Err(_) => i128::MAX,
    };
    let mantissa = mantissa.saturating_add(i128::from(cut > 0)).saturating_mul(1 << power);
    let places = i32::try_from(places - cut).unwrap_or(i32::MAX);
    scaled(mantissa, -places + 9).min(MAX_BINARY)
}

/// Returns the format and exponent of a unit. The base of the exponent is two for binary units and ten for all other
/// units.
fn unit(suffix: &str) -> Option<(Format, i64)> {
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Binary, (*power).into()));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Decimal, (*power).into()));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    // Go keeps only the low 32 bits of the exponent.
    let power: i64 = exponent.parse().ok()?;
    Some((Format::Exponent, i64::from(power as i32)))
}

/// Returns `mantissa` · 10^`power`, rounded away from zero.
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
            ("+3", "+3"),
            ("01", "01"),
            ("1E3", "1E3"),
            ("1.500", "1.500"),
            ("1.000", "1"),
            ("0.100", "100m"),
            ("010Mi", "010Mi"),
            ("08Ki", "8Ki"),
            (" 1 ", "1"),
            ("Gi", "0"),
            ("-", "0"),
            (".", "0"),
            (".5", "500m"),
            ("1.", "1."),
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
            // If no unit is large enough, Go omits the unit.
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
            // Amounts with a binary unit are limited to the maximum of a 64-bit integer.
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
        for text in ["", "x", "1.2.3", "1 Gi", "1gi", "1Kib", "١"] {
            assert_eq!(written(text), Err(WRONG_FORM), "{text}");
        }
        for text in ["1e", "--1", "1i", "1Ki5"] {
            assert_eq!(written(text), Err(WRONG_UNIT), "{text}");
        }
        assert_eq!(written("e-20"), Err(WRONG_NUMBER));
    }

    #[test]
    fn resource_lists_round_up_to_a_milli() {
        for (text, stored) in [
            ("1500u", "2m"),
            ("0.0001", "1m"),
            ("-1500u", "-2m"),
            ("1n", "1m"),
            ("1.500", "1.500"),
            ("+1.0001", "1001m"),
            ("1e-7", "1e-3"),
            ("123456789012345678901u", "123456789012345679m"),
            ("1Gi", "1Gi"),
            ("0.0001Ki", "103m"),
            ("9999999u", "10"),
            ("1E3", "1E3"),
        ] {
            assert_eq!(written_in_list(text).as_deref(), Ok(stored), "{text}");
        }
    }

    #[test]
    fn sum_keeps_the_units_of_the_first_operand() {
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
        fn canonical_form_keeps_the_amount_and_is_stable(
            number in -1_000_000_000_i64..1_000_000_000,
            unit in proptest::sample::select(vec!["", "m", "u", "k", "M", "G", "Ki", "Mi", "Gi", "e3"]),
        ) {
            let text = format!("{number}{unit}");
            let canon = canonical(&text).unwrap();
            prop_assert_eq!(nanos(&canon), nanos(&text));
            prop_assert_eq!(canonical(&canon), Some(canon));
        }

        #[test]
        fn arbitrary_text_does_not_panic(text in "[-+0-9.eEinumkKMGTP]{0,40}") {
            canonical(&text);
        }
    }
}
