//! IP addresses, with Go's messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Function, Returned, cidr, one_text};
use crate::error::Failure;
use crate::meter::Meter;
use crate::value::{Opaque, Value, quoted};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "ip" => ip,
        "family" => |_, args| one(args).map(|address| Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 }))),
        "ip.isCanonical" => is_canonical,
        "isUnspecified" => |_, args| test(args, |address| address.is_unspecified()),
        "isLoopback" => |_, args| test(args, |address| address.is_loopback()),
        "isLinkLocalMulticast" => |_, args| test(args, is_link_local_multicast),
        "isLinkLocalUnicast" => |_, args| test(args, is_link_local_unicast),
        "isGlobalUnicast" => |_, args| test(args, is_global_unicast),
        "isIP" => |_, args| one_text(args).map(|text| Ok(Value::Bool(parse(text).is_ok()))),
        _ => return None,
    })
}

fn one(args: &[Value<'_>]) -> Option<IpAddr> {
    match args {
        [Value::Opaque(Opaque::Ip(address))] => Some(*address),
        _ => None,
    }
}

fn test<'a>(args: &[Value<'a>], holds: impl FnOnce(IpAddr) -> bool) -> Returned<'a> {
    one(args).map(|address| Ok(Value::Bool(holds(address))))
}

/// Parses an IP address, or returns the address of a CIDR value.
fn ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::String(text)] => Some(parse(text).map(|address| Value::Opaque(Opaque::Ip(address)))),
        [Value::Opaque(Opaque::Cidr(cidr))] => Some(Ok(cidr::address(cidr))),
        _ => None,
    }
}

fn is_canonical<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let text = one_text(args)?;
    Some(parse(text).map(|address| Value::Bool(address.to_string() == text)))
}

/// Parses an IP address that must not have a zone such as `%eth0`.
pub(super) fn parse(text: &str) -> Result<IpAddr, Failure> {
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

/// Parses an IP address. Returns the address, and whether it has a zone such as `%eth0`. The error message is the text
/// of Go's `netip.ParseAddr`.
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

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}
