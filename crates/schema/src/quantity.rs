//! Amounts with a unit: read exactly, written in the canonical form.

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

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// Reads a quantity. `None` where the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (nanos, format) = read(text)?;
        Some(Self { nanos, format })
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

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&write(self.nanos, self.format))
    }
}

/// The canonical spelling: no fraction, the largest unit that needs none. `None` where the text is no quantity.
pub fn canonical(text: &str) -> Option<String> {
    let (nanos, format) = read(text)?;
    Some(write(nanos, format))
}

/// The amount in units of 10⁻⁹, rounded up, away from zero; it saturates far beyond 2⁶³.
pub fn nanos(text: &str) -> Option<i128> {
    read(text).map(|(nanos, _)| nanos)
}

fn read(text: &str) -> Option<(i128, Format)> {
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
    let mantissa = digits.trim_start_matches('0');
    // With more digits than can be reckoned with, the last of the fraction only round it up.
    let cut = mantissa.len().saturating_sub(if format == Format::Binary { 20 } else { 37 }).min(fraction.len());
    let mantissa = &mantissa[..mantissa.len() - cut];
    let mantissa: i128 = match mantissa.parse() {
        Ok(mantissa) => mantissa,
        Err(_) if mantissa.is_empty() => 0,
        // Beyond any amount that Kubernetes keeps.
        Err(_) => i128::MAX,
    };
    let mantissa = mantissa.saturating_add(i128::from(cut > 0));
    let places = i32::try_from(fraction.len() - cut).ok()?;
    let amount = match format {
        Format::Binary => scaled(mantissa.saturating_mul(1 << power), -places - FINEST),
        _ => scaled(mantissa, power as i32 - places - FINEST),
    };
    Some((if negative { -amount } else { amount }, format))
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
    let power: i64 = exponent.parse().ok().filter(|_| !exponent.is_empty())?;
    (-30..=30).contains(&power).then_some((Format::Exponent, power))
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

fn write(nanos: i128, format: Format) -> String {
    if nanos == 0 {
        return "0".into();
    }
    // A binary amount below 1024, or one that is not whole, is written in decimal units.
    if format == Format::Binary && nanos % ONE == 0 && (nanos / ONE).abs() >= 1024 {
        let whole = nanos / ONE;
        let unit = BINARY.iter().rfind(|(_, power)| whole % (1 << power) == 0);
        return unit.map_or_else(|| whole.to_string(), |(name, power)| format!("{}{name}", whole >> power));
    }
    let fits = |power: &i32| 10_i128.checked_pow((power - FINEST).unsigned_abs()).is_some_and(|unit| nanos % unit == 0);
    let (name, power) = DECIMAL.iter().rfind(|(_, power)| fits(power)).copied().unwrap_or(("n", FINEST));
    let amount = nanos / 10_i128.pow((power - FINEST).unsigned_abs());
    match format {
        Format::Exponent if power != 0 => format!("{amount}e{power}"),
        _ => format!("{amount}{name}"),
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
            (format!("-1{zeros}m"), "-1000000E"),
            (format!("1.{zeros}Ei"), "1Ei"),
            (format!("{zeros}1.5"), "1500m"),
            ("123456789.123456789123456789123456".into(), "123456789123456790n"),
            ("12345678901234567890123456789012n".into(), "12345678901234567890123456789012n"),
        ] {
            assert_eq!(canonical(&text).as_deref(), Some(canon), "{text}");
        }
        for text in [nines.clone(), format!("{nines}Ki"), format!("1{zeros}{zeros}.5")] {
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
