//! Generates strings for given lengths, formats and patterns.

use fastrand::Rng;
use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::Value;

/// The maximum number of attempts to find a string with a valid length that matches the pattern.
const ATTEMPTS: usize = 100;
/// The maximum number of optional repetitions, in addition to the repetitions that the pattern requires.
const REPEATS: u32 = 4;

pub(super) fn text(schema: &Value, random: &mut Rng) -> Result<String, String> {
    let least = schema["minLength"].as_u64().unwrap_or_default() as usize;
    let most = schema["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize);
    let fits = |text: &str| (least..=most).contains(&text.chars().count());
    if let Some(pattern) = schema["pattern"].as_str() {
        return of_pattern(pattern, random, fits);
    }
    if let Some(text) = schema["format"].as_str().and_then(|format| of_format(format, random)) {
        return if fits(&text) {
            Ok(text)
        } else {
            Err(format!("the format contradicts the lengths {least} and {most}"))
        };
    }
    let mut text = match random.u8(..16) {
        0 => String::new(),
        1 => "\u{e9}\u{4e16} \"x\"".into(),
        _ => label(random),
    };
    while text.chars().count() < least {
        text.push(random.lowercase());
    }
    Ok(text.chars().take(most).collect())
}

pub(super) fn label(random: &mut Rng) -> String {
    let length = random.usize(1..8);
    (0..length).map(|_| random.lowercase()).collect()
}

fn of_pattern(pattern: &str, random: &mut Rng, fits: impl Fn(&str) -> bool) -> Result<String, String> {
    let hir = regex_syntax::parse(pattern).map_err(|error| format!("the pattern {pattern:?} is invalid: {error}"))?;
    let regex = Regex::new(pattern).map_err(|error| format!("the pattern {pattern:?} is invalid: {error}"))?;
    for _ in 0..ATTEMPTS {
        let mut text = Vec::new();
        write(&hir, random, &mut text);
        if let Ok(text) = String::from_utf8(text)
            && regex.is_match(&text)
            && fits(&text)
        {
            return Ok(text);
        }
    }
    Err(format!("no string for the pattern {pattern:?} and the lengths was found"))
}

/// Appends a string that matches the expression. Ignores assertions in the expression. The recursion depth is bounded,
/// because the pattern parser limits the nesting depth.
fn write(hir: &Hir, random: &mut Rng, text: &mut Vec<u8>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.extend_from_slice(&literal.0),
        HirKind::Class(class) => write_class(class, random, text),
        HirKind::Capture(capture) => write(&capture.sub, random, text),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, random, text)),
        HirKind::Alternation(parts) => write(&parts[random.usize(..parts.len())], random, text),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX).min(repetition.min.saturating_add(REPEATS));
            for _ in 0..random.u32(repetition.min..=most.max(repetition.min)) {
                write(&repetition.sub, random, text);
            }
        }
    }
}

fn write_class(class: &Class, random: &mut Rng, text: &mut Vec<u8>) {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let printable = ranges.iter().map(|(start, end)| (*start.max(&0x20), *end.min(&0x7e)));
    let printable: Vec<(u32, u32)> = printable.filter(|(start, end)| start <= end).collect();
    let from = if printable.is_empty() { &ranges } else { &printable };
    if from.is_empty() {
        return;
    }
    let (start, end) = from[random.usize(..from.len())];
    let character = char::from_u32(random.u32(start..=end)).unwrap_or('a');
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn of_format(format: &str, random: &mut Rng) -> Option<String> {
    let (year, month, day) = (random.u16(2000..2030), random.u8(1..=12), random.u8(1..=28));
    let (a, b, c, d) = (random.u8(1..=250), random.u8(..), random.u8(..), random.u8(1..=250));
    let hex = |random: &mut Rng, digits: usize| (0..digits).map(|_| random.digit(16)).collect::<String>();
    Some(match format {
        "date" => format!("{year}-{month:02}-{day:02}"),
        "date-time" | "datetime" => format!("{year}-{month:02}-{day:02}T{:02}:{:02}:00Z", a % 24, b % 60),
        "duration" => format!("{a}m{}s", b % 60),
        "uuid" | "uuid4" => {
            format!("{}-{}-4{}-a{}-{}", hex(random, 8), hex(random, 4), hex(random, 3), hex(random, 3), hex(random, 12))
        }
        "ipv4" => format!("{a}.{b}.{c}.{d}"),
        "ipv6" => format!("2001:db8::{:x}:{:x}", u16::from(a), u16::from(b) + 1),
        "cidr" => format!("10.{b}.{c}.0/24"),
        "mac" => format!("02:{b:02x}:{c:02x}:{d:02x}:00:01"),
        "byte" => ["", "YQ==", "YWI=", "YWJj"][usize::from(a % 4)].into(),
        "email" => format!("{}@example.com", label(random)),
        "uri" => format!("https://{}.example.com/{}", label(random), label(random)),
        "hostname" | "k8s-long-name" => format!("{}.example.com", label(random)),
        "k8s-short-name" => label(random),
        "hexcolor" => format!("#{b:02x}{c:02x}{d:02x}"),
        "rgbcolor" => format!("rgb({a},{b},{c})"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_match_pattern_and_lengths() {
        for pattern in
            ["^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", r"^v\d+(alpha|beta)?\d*$", "^(\\d{1,3}\\.){3}\\d{1,3}$", "x", "^$"]
        {
            let regex = Regex::new(pattern).unwrap();
            for seed in 0..100 {
                let text = text(&json!({"pattern": pattern}), &mut Rng::with_seed(seed)).unwrap();
                assert!(regex.is_match(&text), "{pattern} {text:?}");
            }
        }
        let schema = json!({"minLength": 3, "maxLength": 4});
        for seed in 0..100 {
            let text = text(&schema, &mut Rng::with_seed(seed)).unwrap();
            assert!((3..=4).contains(&text.chars().count()), "{text:?}");
        }
    }

    #[test]
    fn contradiction_is_reported() {
        let error = text(&json!({"pattern": "^a{5}$", "maxLength": 3}), &mut Rng::with_seed(1)).unwrap_err();
        assert_eq!(error, "no string for the pattern \"^a{5}$\" and the lengths was found");
    }
}
