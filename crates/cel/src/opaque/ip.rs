//! Parses IP addresses, with the error messages of Go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::Failure;
use crate::go_text::quoted;

/// Parses an IP address. Rejects addresses with a zone, such as `%eth0`.
pub(crate) fn parse(text: &str) -> Result<IpAddr, Failure> {
    let (address, zoned) = parse_zoned(text).map_err(|reason| {
        let quoted = quoted(text);
        Failure::new(format!("IP Address {quoted} parse error during conversion from string: {reason}"))
    })?;
    if zoned {
        return Err(Failure::new(format!("IP address {} with zone value is not allowed", quoted(text))));
    }
    if is_mapped(address) {
        return Err(mapped(text));
    }
    Ok(address)
}

pub(super) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

pub(super) fn mapped(text: &str) -> Failure {
    Failure::new(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text)))
}

/// Parses an IP address. The returned boolean is `true` if the address has a zone, such as `%eth0`. The error messages
/// are the same as in Go's `netip.ParseAddr`.
pub(super) fn parse_zoned(text: &str) -> Result<(IpAddr, bool), String> {
    let refuse = |(reason, at): (&str, &str)| {
        let at = if at.is_empty() { String::new() } else { format!(" (at {})", quoted(at)) };
        format!("ParseAddr({}): {reason}{at}", quoted(text))
    };
    match text.find(['.', ':', '%']).map(|index| text.as_bytes()[index]) {
        Some(b'.') => v4(text).map(|address| (address.into(), false)).map_err(refuse),
        Some(b':') => {
            let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
            if zone == Some("") {
                return Err(refuse(("zone must be a non-empty string", "")));
            }
            v6(address).map(|address| (address.into(), zone.is_some())).map_err(refuse)
        }
        Some(_) => Err(refuse(("missing IPv6 address", ""))),
        None => Err(refuse(("unable to parse IP", ""))),
    }
}

/// The reason why an IP address is invalid, and the invalid part of the text.
type Fault<'t> = (&'static str, &'t str);

fn v4(text: &str) -> Result<Ipv4Addr, Fault<'_>> {
    let (mut fields, mut position, mut value, mut digits) = ([0_u8; 4], 0, 0_u32, 0);
    for (index, c) in text.char_indices() {
        match c {
            '0'..='9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + (c as u32 - '0' as u32);
                digits += 1;
                fields[position] = u8::try_from(value).map_err(|_| ("IPv4 field has value >255", ""))?;
            }
            '.' if digits == 0 || index == text.len() - 1 => {
                return Err(("IPv4 field must have at least one digit", &text[index..]));
            }
            '.' if position == 3 => return Err(("IPv4 address too long", "")),
            '.' => (position, value, digits) = (position + 1, 0, 0),
            _ => return Err(("unexpected character", &text[index..])),
        }
    }
    if position < 3 { Err(("IPv4 address too short", "")) } else { Ok(fields.into()) }
}

fn v6(text: &str) -> Result<Ipv6Addr, Fault<'_>> {
    let (mut fields, mut ellipsis) = (Vec::<u16>::new(), None);
    let mut rest = text;
    if let Some(after) = rest.strip_prefix("::") {
        (rest, ellipsis) = (after, Some(0));
    }
    while !rest.is_empty() && fields.len() < 8 {
        let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
        match digits {
            0 => return Err(("each colon-separated field must have at least one digit", rest)),
            5.. => return Err(("each group must have 4 or less digits", rest)),
            _ => {}
        }
        let (group, after) = rest.split_at(digits);
        if after.starts_with('.') {
            if ellipsis.is_none() && fields.len() != 6 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if fields.len() > 6 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            let [a, b, c, d] = v4(rest)?.octets();
            fields.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            rest = "";
            break;
        }
        fields.push(u16::from_str_radix(group, 16).unwrap_or_default());
        rest = after;
        if rest.is_empty() {
            break;
        }
        rest = match rest.strip_prefix(':') {
            None => return Err(("unexpected character, want colon", rest)),
            Some("") => return Err(("colon must be followed by more characters", rest)),
            Some(after) => after,
        };
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", rest));
            }
            ellipsis = Some(fields.len());
            rest = after;
        }
    }
    if !rest.is_empty() {
        return Err(("trailing garbage after address", rest));
    }
    match ellipsis {
        None if fields.len() < 8 => return Err(("address string too short", "")),
        Some(_) if fields.len() >= 8 => return Err(("the :: must expand to at least one field of zeros", "")),
        Some(at) => {
            let zeros = 8 - fields.len();
            fields.splice(at..at, std::iter::repeat_n(0, zeros));
        }
        None => {}
    }
    let fields: [u16; 8] = fields.try_into().map_err(|_| ("address string too short", ""))?;
    Ok(fields.into())
}
