//! Translates character classes.

use super::escape::perl_class;
use super::{ANY_CHARACTER, NO_CHARACTER, Scanner};

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

impl<'p> Scanner<'p> {
    /// Reads a class in brackets. RE2 does not support nested classes or set operations.
    pub(super) fn class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.copy_to(start + 1);
        if self.peek() == Some('^') {
            self.copy_to(self.at + 1);
        }
        let mut is_first = true;
        loop {
            match self.peek() {
                Some(']') if !is_first => break,
                _ => self.class_item(start)?,
            }
            is_first = false;
        }
        self.copy_to(self.at + 1);
        Ok(())
    }

    fn class_item(&mut self, class: usize) -> Result<(), String> {
        if self.posix_class()? {
            return Ok(());
        }
        let rest = self.rest();
        let escape = rest.strip_prefix('\\').and_then(|escape| escape.chars().next());
        if let Some('p' | 'P') = escape {
            return self.unicode_class();
        }
        if let Some((name, parts)) = escape.and_then(|name| Some((name, perl_class(name)?))) {
            self.at += 2;
            if name.is_ascii_uppercase() {
                self.out.push_str(&format!("[^{parts}]"))
            } else {
                self.out.push_str(parts)
            }
            return Ok(());
        }
        let start = self.at;
        let low = self.class_char(class)?;
        let rest = self.rest();
        let is_range = rest.starts_with('-') && rest.len() > 1 && !rest.starts_with("-]");
        let high = if is_range {
            self.bump();
            self.class_char(class)?
        } else {
            low
        };
        if high < low {
            return Err(format!("invalid character class range: `{}`", self.since(start)));
        }
        self.range(low, high);
        Ok(())
    }

    /// Writes a range of code points, without surrogates, which cannot occur in a Rust string.
    fn range(&mut self, low: u32, high: u32) {
        let first = char::from_u32(low).unwrap_or('\u{e000}');
        let last = char::from_u32(high).unwrap_or('\u{d7ff}');
        if first > last {
            self.out.push_str(NO_CHARACTER);
            return;
        }
        self.literal(first);
        if first < last {
            self.out.push('-');
            self.literal(last);
        }
    }

    fn class_char(&mut self, class: usize) -> Result<u32, String> {
        match self.peek() {
            Some('\\') => self.escaped_char(),
            _ => self.bump().map(u32::from).ok_or_else(|| format!("missing closing ]: `{}`", &self.pattern[class..])),
        }
    }

    /// Reads a class such as `[:alpha:]`. Returns `false` if the pattern does not continue with such a class.
    fn posix_class(&mut self) -> Result<bool, String> {
        let Some((name, _)) = self.rest().strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
            return Ok(false);
        };
        let end = self.at + name.len() + 4;
        if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(format!("invalid character class range: `{}`", &self.pattern[self.at..end]));
        }
        self.copy_to(end);
        Ok(true)
    }

    pub(super) fn unicode_class(&mut self) -> Result<(), String> {
        let (start, rest) = (self.at, self.rest());
        let is_negated = rest.starts_with("\\P");
        let behind = &rest[2..];
        let (name, length) = match behind.strip_prefix('{') {
            None => {
                let length = behind.chars().next().map_or(0, char::len_utf8);
                (&behind[..length], length)
            }
            Some(name) => match name.split_once('}') {
                Some((name, _)) => (name, name.len() + 2),
                None => ("", behind.len()),
            },
        };
        self.at += 2 + length;
        let positive = name.strip_prefix('^');
        let is_negated = is_negated != positive.is_some();
        let name = positive.unwrap_or(name);
        // The crate `regex` does not support the general category of surrogates.
        if are_equal(name, "Cs") || are_equal(name, "Surrogate") {
            self.out.push_str(if is_negated { ANY_CHARACTER } else { NO_CHARACTER });
            return Ok(());
        }
        if !*self.classes.entry(name).or_insert_with(|| is_known(name)) {
            return Err(format!("invalid character class range: `{}`", self.since(start)));
        }
        self.out.push_str(if is_negated { "\\P{" } else { "\\p{" });
        self.out.push_str(name);
        self.out.push('}');
        Ok(())
    }
}

/// Returns `true` if RE2 supports this Unicode class. The only Unicode classes in RE2 are general categories and
/// scripts. The crate `regex` supports additional classes, which RE2 rejects.
fn is_known(name: &str) -> bool {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' '));
    let is_kind = |kind: &str| regex_syntax::parse(&format!("\\p{{{kind}={name}}}")).is_ok();
    // Reject the prefix `is`, which the crate `regex` ignores.
    let has_prefix = name.get(..2).is_some_and(|prefix| prefix.eq_ignore_ascii_case("is"));
    let is_lost = || SCRIPTS_OF_SEVERAL_WORDS.iter().any(|script| are_equal(script, name));
    is_name && !has_prefix && (is_kind("gc") || is_kind("sc") && !is_script_code(name) && !is_lost())
}

/// Compares two class names, ignoring case, underscores, hyphens and spaces.
fn are_equal(name: &str, other: &str) -> bool {
    let letters = |name: &str| -> Vec<u8> {
        let letters = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-' | b' '));
        letters.map(|byte| byte.to_ascii_lowercase()).collect()
    };
    letters(name) == letters(other)
}

/// The scripts whose names consist of several words. Go 1.26 rejects script names of several words.
const SCRIPTS_OF_SEVERAL_WORDS: [&str; 46] = [
    "AnatolianHieroglyphs",
    "BassaVah",
    "CanadianAboriginal",
    "CaucasianAlbanian",
    "CyproMinoan",
    "DivesAkuru",
    "EgyptianHieroglyphs",
    "GunjalaGondi",
    "HanifiRohingya",
    "ImperialAramaic",
    "InscriptionalPahlavi",
    "InscriptionalParthian",
    "KayahLi",
    "KhitanSmallScript",
    "LinearA",
    "LinearB",
    "MasaramGondi",
    "MeeteiMayek",
    "MendeKikakui",
    "MeroiticCursive",
    "MeroiticHieroglyphs",
    "NagMundari",
    "NewTaiLue",
    "NyiakengPuachueHmong",
    "OlChiki",
    "OldHungarian",
    "OldItalic",
    "OldNorthArabian",
    "OldPermic",
    "OldPersian",
    "OldSogdian",
    "OldSouthArabian",
    "OldTurkic",
    "OldUyghur",
    "PahawhHmong",
    "PauCinHau",
    "PhagsPa",
    "PsalterPahlavi",
    "SignWriting",
    "SoraSompeng",
    "SylotiNagri",
    "TaiLe",
    "TaiTham",
    "TaiViet",
    "WarangCiti",
    "ZanabazarSquare",
];

/// The script names with exactly four letters.
const SHORT_SCRIPTS: [&str; 9] = ["Ahom", "Cham", "Kawi", "Lisu", "Miao", "Modi", "Newa", "Thai", "Toto"];

/// Returns `true` if `name` is a script code, such as `Latn`, and not a script name. All script codes have four
/// letters. Go accepts script names, but no script codes.
fn is_script_code(name: &str) -> bool {
    name.len() == 4 && !SHORT_SCRIPTS.iter().any(|script| script.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::is_known;

    #[test]
    fn codes_and_names_of_several_words_are_unknown() {
        for name in ["Latn", "Grek", "Zyyy", "Cyrl", "Qaac", "Old_Italic", "linear b", "SignWriting"] {
            assert!(!is_known(name), "{name}");
        }
        for name in ["Latin", "Greek", "Thai", "Cham", "Yi", "Nko", "Lu", "L"] {
            assert!(is_known(name), "{name}");
        }
    }
}
