//! Writes JSON with the number format of Go. As in Go's `encoding/json`, a nonzero float has an exponent if its
//! magnitude is below 1e-6 or at least 1e21.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Error;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Writes a value without spaces.
///
/// # Errors
/// Returns an error if the writer or the value's `Serialize` implementation fails.
pub fn to_writer<T: Serialize + ?Sized>(to: impl Write, value: &T) -> Result<(), Error> {
    value.serialize(&mut Serializer::with_formatter(to, GoNumbers(CompactFormatter)))
}

/// Serializes a value as JSON without spaces.
///
/// # Errors
/// Returns an error if the value's `Serialize` implementation fails.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(128);
    to_writer(&mut out, value).map(|()| out)
}

/// Serializes a value as JSON with line breaks and an indentation of two spaces per level.
///
/// # Errors
/// Returns an error if the value's `Serialize` implementation fails.
pub fn to_vec_pretty<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(128);
    value.serialize(&mut Serializer::with_formatter(&mut out, GoNumbers(PrettyFormatter::new()))).map(|()| out)
}

/// Writes floats like Go, and forwards all other values to another formatter.
struct GoNumbers<F>(F);

macro_rules! forward {
    ($($method:ident($($argument:ident: $of:ty),*)),* $(,)?) => {$(
        #[inline]
        fn $method<W: ?Sized + Write>(&mut self, to: &mut W $(, $argument: $of)*) -> io::Result<()> {
            self.0.$method(to $(, $argument)*)
        }
    )*};
}

impl<F: Formatter> Formatter for GoNumbers<F> {
    forward! {
        begin_array(), end_array(), begin_array_value(first: bool), end_array_value(), begin_object(), end_object(),
        begin_object_key(first: bool), end_object_key(), begin_object_value(), end_object_value(),
    }

    fn write_f32<W: ?Sized + Write>(&mut self, to: &mut W, value: f32) -> io::Result<()> {
        write_float(to, value.abs().into(), format_args!("{value:e}"), format_args!("{value}"))
    }

    fn write_f64<W: ?Sized + Write>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        write_float(to, value.abs(), format_args!("{value:e}"), format_args!("{value}"))
    }

    /// Writes a number that serde_json stores as text because its feature `arbitrary_precision` is enabled.
    fn write_number_str<W: ?Sized + Write>(&mut self, to: &mut W, text: &str) -> io::Result<()> {
        let is_integer = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
        match text.parse::<f64>() {
            Ok(number) if !is_integer && number.is_finite() => self.write_f64(to, number),
            _ => to.write_all(text.as_bytes()),
        }
    }
}

/// Formats a number like Go's `%g`.
pub fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Inf" } else { "+Inf" }.into();
    }
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match exponent {
        -4..6 => value.to_string(),
        _ => format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

/// Writes a float in Go's format. Rust and Go both write the shortest digits that identify the float, but Rust
/// omits the plus sign of the exponent.
fn write_float<W: ?Sized + Write>(
    to: &mut W,
    size: f64,
    exponent: std::fmt::Arguments<'_>,
    full: std::fmt::Arguments<'_>,
) -> io::Result<()> {
    if size >= 1e21 {
        let text = exponent.to_string();
        return to.write_all(text.replace('e', "e+").as_bytes());
    }
    to.write_fmt(if size != 0.0 && size < 1e-6 { exponent } else { full })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_go() {
        for (number, written) in [
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (18_446_744_073_709_551_616.0, "18446744073709552000"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (-1.5e-7, "-1.5e-7"),
            (5e-324, "5e-324"),
            (1.0, "1"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (-123_456_780_000_000.5, "-123456780000000.5"),
        ] {
            assert_eq!(to_vec(&number).unwrap(), written.as_bytes());
            assert_eq!(crate::Json::from(number).to_string(), written);
        }
        assert_eq!(to_vec(&0.1_f32).unwrap(), b"0.1");
    }

    #[test]
    fn everything_else_is_written_like_serde_json() {
        let value = crate::json!({"a": [1, {"b": null}, "x\u{1}\"<"], "c": {}, "d": [], "e": true});
        assert_eq!(to_vec(&value).unwrap(), serde_json::to_vec(&value).unwrap());
        assert_eq!(to_vec_pretty(&value).unwrap(), serde_json::to_vec_pretty(&value).unwrap());
    }
}
