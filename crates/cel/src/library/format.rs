//! `string.format`.

use super::{Returned, convert};
use crate::error::Failure;
use crate::go_text::quoted;
use crate::meter::Meter;
use crate::value::{Key, Map, Value};

const DEFAULT_PRECISION: usize = 6;
/// The maximum number of digits after the decimal point of a floating-point number.
const MAX_DIGITS: usize = 1_100;
const MAX_DEPTH: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Clause {
    String,
    Decimal,
    Fixed(Option<usize>),
    Scientific(Option<usize>),
    Binary,
    Hex { upper: bool },
    Octal,
}

pub(crate) enum FormatError {
    Format(String),
    Argument(String),
    Other(Failure),
}

impl Clause {
    /// Returns the error message for an argument with the type `found`, which the clause does not accept.
    pub(crate) fn refusal(self, found: &str) -> String {
        let rule = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
                 and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {rule}, was given {found}")
    }
}

/// Parses a format string. Calls `each` for every clause with the index of its argument, and for every text between
/// clauses.
pub(crate) fn clauses(
    text: &str,
    args: usize,
    mut each: impl FnMut(Result<&str, (Clause, usize)>) -> Result<(), FormatError>,
) -> Result<usize, FormatError> {
    let mut used = 0;
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        each(Ok(&rest[..at]))?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            each(Ok("%"))?;
            rest = after;
            continue;
        }
        if rest.is_empty() && used < args {
            return Err(FormatError::Format("unexpected end of string".into()));
        }
        if used >= args {
            return Err(FormatError::Format(format!("index {used} out of range")));
        }
        let (clause, after) = clause(rest)
            .map_err(|reason| FormatError::Format(format!("could not parse formatting clause: {reason}")))?;
        each(Err((clause, used)))?;
        used += 1;
        rest = after;
    }
    each(Ok(rest))?;
    Ok(used)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(after) => {
            let end = after.find(|c: char| !c.is_ascii_digit());
            let end = end.ok_or("error while parsing precision: could not find end of precision specifier")?;
            let digits = &after[..end];
            let number = digits.parse::<usize>().ok().filter(|number| i64::try_from(*number).is_ok());
            let reason = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
            let number = number.ok_or_else(|| {
                let context = "error while parsing precision: error while converting precision to integer";
                format!("{context}: strconv.Atoi: parsing {}: {reason}", quoted(digits))
            })?;
            (Some(number), &after[end..])
        }
    };
    let mut chars = rest.chars();
    let clause = match chars.next().unwrap_or_default() {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' => Clause::Hex { upper: false },
        'X' => Clause::Hex { upper: true },
        'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, chars.as_str()))
}

pub(super) fn format<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::String(text), Value::List(list)] = args else { return None };
    let mut output = String::new();
    let result = clauses(text, list.len(), |part| {
        let before = output.len();
        match part {
            Ok(plain) => output.push_str(plain),
            Err((clause, index)) => {
                let arg = list.get(index, meter).unwrap_or_else(|| Err(Failure::new("index out of range")));
                formatted(clause, &arg.map_err(FormatError::Other)?, &mut output, meter)?;
            }
        }
        meter.text(output.len() - before + 1).map_err(FormatError::Other)
    });
    Some(match result {
        Ok(_) => Ok(output.into()),
        Err(FormatError::Format(message) | FormatError::Argument(message)) => Err(Failure::new(message)),
        Err(FormatError::Other(failure)) => Err(failure),
    })
}

fn formatted(clause: Clause, value: &Value<'_>, output: &mut String, meter: &mut Meter) -> Result<(), FormatError> {
    let refused = || FormatError::Argument(clause.refusal(value.type_of().name()));
    let text = match (clause, value) {
        (Clause::String, _) => {
            return plain(value, output, MAX_DEPTH, meter).map_err(|failure| in_text(failure, value));
        }
        (Clause::Decimal, Value::Int(number)) => number.to_string(),
        (Clause::Decimal, Value::Uint(number)) => number.to_string(),
        (Clause::Fixed(precision), value) => {
            let number = special(value).ok_or_else(refused)?;
            fixed(number, checked(precision, meter)?)
        }
        (Clause::Scientific(precision), value) => {
            let number = special(value).ok_or_else(refused)?;
            scientific(number, checked(precision, meter)?)
        }
        (Clause::Binary, Value::Int(number)) => signed(*number, |number| format!("{number:b}")),
        (Clause::Binary, Value::Uint(number)) => format!("{number:b}"),
        (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (Clause::Octal, Value::Int(number)) => signed(*number, |number| format!("{number:o}")),
        (Clause::Octal, Value::Uint(number)) => format!("{number:o}"),
        (Clause::Hex { upper }, value) => {
            let text = match value {
                Value::Int(number) => signed(*number, |number| format!("{number:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => return Err(refused()),
            };
            if upper { text.to_uppercase() } else { text }
        }
        _ => return Err(refused()),
    };
    output.push_str(&text);
    Ok(())
}

fn signed(number: i64, digits: impl FnOnce(u64) -> String) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, digits(number.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or_default());
    bytes.iter().flat_map(digits).collect()
}

/// Returns the precision, or its default value. Counts the work of writing this number of digits.
fn checked(precision: Option<usize>, meter: &mut Meter) -> Result<usize, FormatError> {
    let precision = precision.unwrap_or(DEFAULT_PRECISION);
    meter.text(precision).map_err(FormatError::Other)?;
    Ok(precision)
}

/// Converts a floating-point value, or a string such as `NaN`, to a number.
fn special(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn not_finite(number: f64) -> &'static str {
    match number {
        _ if number.is_nan() => "NaN",
        _ if number < 0.0 => "-∞",
        _ => "∞",
    }
}

/// Formats a number with its digits in groups of three.
fn fixed(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return not_finite(number).into();
    }
    // All digits after the first `MAX_DIGITS` are zeros.
    let digits = precision.min(MAX_DIGITS);
    let text = format!("{number:.digits$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", &*text), |text| ("-", text));
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut grouped = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped.extend(std::iter::repeat_n('0', precision - digits));
    grouped
}

/// Writes a number as `1.052033×10⁰³`. As in cel-go, the number always has six digits after the decimal point, and the
/// precision is used as the minimum width.
fn scientific(number: f64, width: usize) -> String {
    let text = if number.is_finite() { raised(number) } else { not_finite(number).into() };
    let missing = width.saturating_sub(text.chars().count());
    format!("{}{text}", " ".repeat(missing))
}

fn raised(number: f64) -> String {
    let text = format!("{number:.DEFAULT_PRECISION$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |exponent| ("⁻", exponent));
    let superscript = |digit: char| match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    };
    let exponent: String = format!("{exponent:0>2}").chars().map(superscript).collect();
    format!("{mantissa}×10{sign}{exponent}")
}

fn in_text(failure: Failure, value: &Value<'_>) -> FormatError {
    match failure {
        Failure::Error(message) if message.is_empty() => {
            FormatError::Argument(Clause::String.refusal(value.type_of().name()))
        }
        Failure::Error(message) => FormatError::Argument(format!("error during formatting: {message}")),
        failure => FormatError::Other(failure),
    }
}

/// Writes the argument of `%s`. If the value cannot be converted to text, the error message is empty.
fn plain(value: &Value<'_>, output: &mut String, depth: usize, meter: &mut Meter) -> Result<(), Failure> {
    match value {
        Value::List(_) | Value::Map(_) => nested(value, output, depth, meter),
        Value::Null => {
            output.push_str("null");
            Ok(())
        }
        Value::Type(inner) => {
            output.push_str(inner.name());
            Ok(())
        }
        Value::Opaque(_) | Value::Object(_) | Value::Optional(_) => Err(Failure::new("")),
        value => {
            let text = convert::text(value).unwrap_or_else(|| Err(Failure::new("")))?;
            meter.text(text.as_str().map_or(0, str::len))?;
            output.push_str(text.as_str().unwrap_or_default());
            Ok(())
        }
    }
}

fn nested(value: &Value<'_>, output: &mut String, depth: usize, meter: &mut Meter) -> Result<(), Failure> {
    let depth = depth.checked_sub(1).ok_or_else(|| Failure::new("values are nested too deep to format"))?;
    meter.work(8)?;
    match value {
        Value::List(list) => {
            output.push('[');
            let (mut items, mut separator) = (list.reader(), "");
            while let Some(item) = items.next(meter) {
                output.push_str(std::mem::replace(&mut separator, ", "));
                nested(&item?, output, depth, meter)?;
            }
            output.push(']');
        }
        Value::Map(map) => entries(map, output, depth, meter)?,
        Value::String(text) => {
            meter.text(text.len())?;
            output.push_str(&quoted(text));
        }
        Value::Bytes(bytes) => output.push_str(&format!("b{}", quoted(&String::from_utf8_lossy(bytes)))),
        Value::Double(number) if number.is_finite() => output.push_str(&format!("{number:.6}")),
        Value::Double(number) => output.push_str(match number {
            _ if number.is_nan() => "\"NaN\"",
            _ if *number < 0.0 => "\"-Inf\"",
            _ => "\"+Inf\"",
        }),
        Value::Timestamp(time) => output.push_str(&format!("timestamp(\"{time}\")")),
        Value::Duration(nanos) => output.push_str(&format!("duration(\"{}\")", crate::time::duration_text(*nanos))),
        Value::Opaque(_) | Value::Object(_) | Value::Optional(_) => {
            return Err(Failure::new(format!("no formatting function for {}", value.type_of().name())));
        }
        value => plain(value, output, depth, meter)?,
    }
    Ok(())
}

fn entries(map: &Map<'_>, output: &mut String, depth: usize, meter: &mut Meter) -> Result<(), Failure> {
    let mut texts = Vec::new();
    for key in map.keys() {
        let mut text = String::new();
        match &key {
            Key::Double(_) => return Err(Failure::new("no formatting function for map key of type double")),
            key => nested(&key.value(), &mut text, depth, meter)?,
        }
        let mut value = String::new();
        if let Some(found) = map.get(&key.value(), meter)? {
            nested(&found, &mut value, depth, meter)?;
        }
        // Each level of nested maps copies the text again.
        meter.text(text.len() + value.len())?;
        texts.push((text, value));
    }
    texts.sort_by(|left, right| left.0.cmp(&right.0));
    let texts: Vec<_> = texts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    output.push_str(&format!("{{{}}}", texts.join(", ")));
    Ok(())
}
