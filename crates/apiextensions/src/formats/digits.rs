//! Checks ISBNs, credit card numbers and social security numbers.

/// Returns `true` if the digits have a known card issuer's prefix and a valid Luhn checksum. Ignores all
/// characters that are not digits.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let spelt: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 =
        digits.iter().rev().enumerate().map(|(at, digit)| if at % 2 == 1 { doubled(*digit) } else { *digit }).sum();
    is_of_issuer(&spelt) && sum.is_multiple_of(10)
}

fn is_of_issuer(digits: &str) -> bool {
    let number = |length: usize| digits.get(..length).and_then(|first| first.parse::<u32>().ok()).unwrap_or(0);
    match digits.len() {
        13 => number(1) == 4,
        14 => matches!(number(3), 300..=305 | 360..=369 | 380..=389),
        15 => matches!(number(2), 34 | 37) || matches!(number(4), 2131 | 1800),
        16 => number(1) == 4 || matches!(number(2), 51..=55 | 65) || number(4) == 6011 || number(2) == 35,
        _ => false,
    }
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let plain = without_separators(text);
    let Some((first, last)) = plain.split_at_checked(9) else { return false };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let last = match last {
        "X" => 10,
        last if last.len() == 1 && digits(last) => value(last.as_bytes()[0]),
        _ => return false,
    };
    let sum: u32 = (1..).zip(first.bytes()).map(|(weight, byte)| weight * value(byte)).sum();
    digits(first) && (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let plain = without_separators(text);
    let all_digits = plain.len() == 13 && plain.bytes().all(|byte| byte.is_ascii_digit());
    let weighted = |(at, byte): (usize, u8)| if at % 2 == 1 { 3 * value(byte) } else { value(byte) };
    all_digits && plain.bytes().enumerate().map(weighted).sum::<u32>().is_multiple_of(10)
}

/// Returns `true` for groups of three, two and four digits, with a dash or a space between them.
pub(super) fn is_social_security(text: &str) -> bool {
    text.len() == 11
        && text.bytes().enumerate().all(|(at, byte)| match at {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\u{c}' | '\r' | ' ' | '-')).collect()
}

fn value(byte: u8) -> u32 {
    u32::from(byte.saturating_sub(b'0'))
}
