//! Email addresses according to RFC 5322, in the form `a@b.c`, `Name <a@b.c>`, or a group with one address.

/// Returns `true` for a single email address. The parser is not recursive, so the nesting of comments cannot
/// overflow the stack.
pub(super) fn is_email(text: &str) -> bool {
    let mut rest = text;
    addresses(&mut rest, true) == Some(1) && skip_comments(&mut rest).is_some() && rest.is_empty()
}

/// Reads an address, or a group if `groups` is true, and returns the number of addresses.
fn addresses(rest: &mut &str, groups: bool) -> Option<usize> {
    skip_blanks(rest);
    let start = *rest;
    if address(rest).is_some() {
        skip_blanks(rest);
        if rest.starts_with('(') {
            *rest = &rest[1..];
            comment(rest)?;
        }
        return Some(1);
    }
    *rest = start;
    if !rest.starts_with('<') {
        phrase(rest)?;
    }
    skip_blanks(rest);
    if groups && eat(rest, ':') {
        return group(rest);
    }
    let complete = eat(rest, '<') && address(rest).is_some() && eat(rest, '>');
    complete.then_some(1)
}

fn group(rest: &mut &str) -> Option<usize> {
    skip_blanks(rest);
    let mut count = 0;
    while !eat(rest, ';') {
        if count > 0 && !eat(rest, ',') {
            return None;
        }
        skip_blanks(rest);
        count += addresses(rest, false)?;
        skip_comments(rest)?;
    }
    skip_comments(rest)?;
    Some(count)
}

fn address(rest: &mut &str) -> Option<()> {
    skip_blanks(rest);
    if rest.starts_with('"') {
        quoted(rest).filter(|local| *local > 0)?;
    } else {
        atom(rest).filter(|atom| is_dotted(atom))?;
    }
    if !eat(rest, '@') {
        return None;
    }
    skip_blanks(rest);
    if eat(rest, '[') {
        let (literal, after) = rest.split_once(']')?;
        *rest = after;
        return literal.parse::<std::net::IpAddr>().ok().map(|_| ());
    }
    atom(rest).filter(|atom| is_dotted(atom)).map(|_| ())
}

fn phrase(rest: &mut &str) -> Option<()> {
    let mut words = 0;
    loop {
        if words > 0 {
            skip_comments(rest)?;
        }
        skip_blanks(rest);
        let before = *rest;
        let word = if rest.starts_with('"') { quoted(rest).map(|_| ()) } else { atom(rest).map(|_| ()) };
        if word.is_none() {
            *rest = before;
            return (words > 0).then_some(());
        }
        words += 1;
    }
}

/// Reads a quoted string and returns its number of characters.
fn quoted(rest: &mut &str) -> Option<usize> {
    let mut escaped = false;
    let mut count = 0;
    for (at, c) in rest.char_indices().skip(1) {
        let blank = matches!(c, ' ' | '\t');
        match c {
            _ if escaped && (is_visible(c) || blank) => (escaped, count) = (false, count + 1),
            _ if escaped => return None,
            '"' => {
                *rest = &rest[at + 1..];
                return Some(count);
            }
            '\\' => escaped = true,
            _ if is_visible(c) || blank => count += 1,
            _ => return None,
        }
    }
    None
}

fn atom<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let in_atom = |c: char| is_visible(c) && !"()<>[]:;@\\,\"".contains(c);
    let (atom, after) = rest.split_at(rest.find(|c| !in_atom(c)).unwrap_or(rest.len()));
    *rest = after;
    Some(atom).filter(|atom| !atom.is_empty())
}

fn is_dotted(atom: &str) -> bool {
    !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..")
}

fn is_visible(c: char) -> bool {
    c.is_ascii_graphic() || !c.is_ascii()
}

fn skip_blanks(rest: &mut &str) {
    *rest = rest.trim_start_matches([' ', '\t']);
}

fn skip_comments(rest: &mut &str) -> Option<()> {
    skip_blanks(rest);
    while eat(rest, '(') {
        comment(rest)?;
        skip_blanks(rest);
    }
    Some(())
}

fn comment(rest: &mut &str) -> Option<()> {
    let (mut depth, mut escaped) = (1, false);
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            *rest = &rest[at + 1..];
            return Some(());
        }
    }
    None
}

fn eat(rest: &mut &str, wanted: char) -> bool {
    let found = rest.strip_prefix(wanted);
    *rest = found.unwrap_or(rest);
    found.is_some()
}
