//! Parses the `Warning` header: a comma-separated list of `code agent "text" ["date"]`. This module does no I/O.

use http::HeaderMap;
use http::header::WARNING;

use super::Warning;

/// Returns all warnings in the headers of a response. If a warning is malformed, the remaining warnings of its header
/// are ignored, but other headers are still parsed.
pub(crate) fn parse_all(headers: &HeaderMap) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for value in headers.get_all(WARNING) {
        let Ok(mut rest) = std::str::from_utf8(value.as_bytes()) else { continue };
        while !rest.trim().is_empty() {
            match parse_one(rest) {
                Ok((warning, remainder)) => {
                    warnings.push(warning);
                    rest = remainder;
                }
                Err(fault) => {
                    tracing::debug!(fault, "ignored the rest of a malformed Warning header");
                    break;
                }
            }
        }
    }
    warnings
}

/// Returns the first warning and the text that follows it.
fn parse_one(text: &str) -> Result<(Warning, &str), &'static str> {
    let text = text.trim();
    let (code, rest) = text.split_once(' ').ok_or("fewer than three parts")?;
    let (agent, rest) = rest.split_once(' ').ok_or("fewer than three parts")?;
    if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the code is not three digits");
    }
    let code = code.parse().map_err(|_| "the code is not three digits")?;
    if agent.is_empty() || agent.chars().any(char::is_control) {
        return Err("the agent is empty or contains control characters");
    }
    let (text, rest) = quoted(rest)?;
    if text.chars().any(char::is_control) {
        return Err("the text contains control characters");
    }
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('"') {
        // Skip the date of the warning, which is not used.
        Some(date) => date.split_once('"').ok_or("the date has no end")?.1.trim_start(),
        None => rest,
    };
    let rest = match rest.strip_prefix(',') {
        Some(rest) => rest.trim(),
        None if rest.is_empty() => rest,
        None => return Err("after the text, a date or a comma is missing"),
    };
    Ok((Warning { code, agent: agent.into(), text: super::words::decode(&text) }, rest))
}

/// Parses a quoted string, including escape sequences. Returns the unescaped string and the text that follows it.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let text = text.trim_start().strip_prefix('"').ok_or("the text is not in quotes")?;
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((plain, &text[at + 1..])),
            '\\' => plain.push(characters.next().ok_or("the text has no end")?.1),
            character => plain.push(character),
        }
    }
    Err("the text has no end")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(header: &str) -> Result<(u16, String, String, &str), &'static str> {
        parse_one(header).map(|(Warning { code, agent, text }, rest)| (code, agent, text, rest))
    }

    #[test]
    fn warning_has_code_agent_and_text() {
        for (header, code, agent, text, rest) in [
            (r#"299 - "plain""#, 299, "-", "plain", ""),
            (r#"  299 -   "spaced"  "#, 299, "-", "spaced", ""),
            (r#"299 kube "with \"quotes\" and \\ and \a""#, 299, "kube", "with \"quotes\" and \\ and a", ""),
            (r#"321 - "other code""#, 321, "-", "other code", ""),
            (r#"299 - "direct ü""#, 299, "-", "direct ü", ""),
            (r#"299 - "dated" "Tue, 15 Nov 1994 08:12:31 GMT""#, 299, "-", "dated", ""),
            (r#"299 - "dated" "Tue, 15 Nov 1994 08:12:31 GMT", 299 - "b""#, 299, "-", "dated", r#"299 - "b""#),
            (r#"299 - "comma" ,"#, 299, "-", "comma", ""),
            (r#"299 - "a",   299 - "b"  "#, 299, "-", "a", r#"299 - "b""#),
            (r#"299 - "=?iso-8859-1?q?caf=E9_x?=""#, 299, "-", "café x", ""),
            (r#"299 - "=?ISO-8859-1?B?Y2Fm6Q==?=""#, 299, "-", "café", ""),
            (r#"299 - "=?utf-8?Q?caf=C3=A9?=""#, 299, "-", "café", ""),
            (r#"299 - "=?UTF-8?b?w7w=?=""#, 299, "-", "ü", ""),
            (r#"299 - "one =?UTF-8?q?=C3=BC?= two =?UTF-8?q?=C3=A4?= three""#, 299, "-", "one ü two ä three", ""),
            (r#"299 - "=?utf-8?q?a?=  =?utf-8?q?b?=""#, 299, "-", "ab", ""),
            (r#"299 - "=?odd?q?raw?=""#, 299, "-", "=?odd?q?raw?=", ""),
            (r#"299 - "=?utf-8?q?=FF?=""#, 299, "-", "=?utf-8?q?=FF?=", ""),
            (r#"299 - "=?utf-8?q?=07?=""#, 299, "-", "=?utf-8?q?=07?=", ""),
        ] {
            assert_eq!(parse(header), Ok((code, agent.into(), text.into(), rest)), "{header}");
        }
    }

    #[test]
    fn malformed_warning_is_rejected() {
        const FEW: &str = "fewer than three parts";
        const CODE: &str = "the code is not three digits";
        const AGENT: &str = "the agent is empty or contains control characters";
        const END: &str = "the text has no end";
        const MORE: &str = "after the text, a date or a comma is missing";
        for (header, fault) in [
            ("", FEW),
            ("299", FEW),
            ("299 -", FEW),
            (r#"1 - "text""#, CODE),
            (r#"A - "text""#, CODE),
            (r#"A99 - "text""#, CODE),
            (r#"2999 - "text""#, CODE),
            (r#"+29 - "text""#, CODE),
            (r#"299  "text""#, AGENT),
            ("299 a\u{7}b \"text\"", AGENT),
            ("299 - text", "the text is not in quotes"),
            (r#"299 - "no end"#, END),
            (r#"299 - "no end\"#, END),
            ("299 - \"te\u{7}xt\"", "the text contains control characters"),
            (r#"299 - "text" "no end"#, "the date has no end"),
            (r#"299 - "text" "date" more"#, MORE),
            (r#"299 - "text" more"#, MORE),
        ] {
            assert_eq!(parse(header), Err(fault), "{header:?}");
        }
    }

    #[test]
    fn malformed_warning_affects_only_its_own_header() {
        let mut headers = HeaderMap::new();
        for value in [r#"299 - "1", 299 - "2""#, r#"299 - "3", 299 - "no end, 299 - x"#, r#"299 - "4", 299 - "5""#] {
            headers.append(WARNING, value.parse().unwrap());
        }
        let texts: Vec<String> = parse_all(&headers).into_iter().map(|warning| warning.text).collect();
        assert_eq!(texts, ["1", "2", "3", "4", "5"]);
    }
}
