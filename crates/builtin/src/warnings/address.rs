//! Warnings about IP addresses and CIDR blocks that are not in canonical form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pintle_json::Json;

pub(crate) fn ip(text: &str, path: &str) -> Option<String> {
    let (address, strict) = lenient(text)?;
    match address {
        _ if !strict || is_mapped(address) => {
            let better = address.to_canonical();
            Some(format!("{path}: non-standard IP address {text:?} is invalid: use \"{better}\""))
        }
        IpAddr::V6(address) if address.to_string() != text => {
            Some(format!("{path}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{address}\")"))
        }
        _ => None,
    }
}

/// Warns about a CIDR block that is not in canonical form or has nonzero bits after the prefix.
pub(crate) fn block(text: &str, path: &str) -> Vec<String> {
    let Some((address, length)) = text.split_once('/') else { return Vec::new() };
    let Some((address, strict)) = lenient(address) else { return Vec::new() };
    let Some(bits) = length.parse::<u32>().ok().filter(|_| length.bytes().all(|byte| byte.is_ascii_digit())) else {
        return Vec::new();
    };
    let width = if address.is_ipv4() { 32 } else { 128 };
    if bits > width {
        return Vec::new();
    }
    let first = masked(address, bits);
    // For an IPv4 address that is mapped to IPv6, the message shows the IPv4 form.
    let shown = format!("{}/{}", first.to_canonical(), if is_mapped(first) { bits.saturating_sub(96) } else { bits });
    let mut found = Vec::new();
    if first != address {
        let single = address.to_canonical();
        let why = format!("is ambiguous in this context (should be \"{shown}\" or \"{single}/{width}\"?)");
        found.push(format!("{path}: CIDR value {text:?} {why}"));
    }
    let padded = length.len() > 1 && length.starts_with('0');
    if !strict || padded || is_mapped(address) {
        found.push(format!("{path}: non-standard CIDR value {text:?} is invalid: use \"{shown}\""));
    } else if found.is_empty() && address.is_ipv6() && format!("{address}/{bits}") != text {
        let better = format!("{address}/{bits}");
        found.push(format!("{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{better}\")"));
    }
    found
}

pub(crate) fn load_balancer(object: &Json) -> Vec<String> {
    let entries = object.list("/status/loadBalancer/ingress").enumerate();
    entries.filter_map(|(at, entry)| ip(entry.text("/ip"), &format!("status.loadBalancer.ingress[{at}]"))).collect()
}

/// Parses an address. The returned boolean is `false` for an address with leading zeros, which older Kubernetes
/// versions accepted.
fn lenient(text: &str) -> Option<(IpAddr, bool)> {
    if let Ok(address) = text.parse() {
        return Some((address, true));
    }
    let (front, dotted) = text.rsplit_once(':').map_or(("", text), |(front, dotted)| (front, dotted));
    let number = |part: &str| match part.trim_start_matches('0') {
        "" if part.is_empty() => None,
        "" => Some("0".to_owned()),
        digits => Some(digits.to_owned()),
    };
    let dotted = dotted.split('.').map(number).collect::<Option<Vec<_>>>()?.join(".");
    let plain = if front.is_empty() && !text.starts_with(':') { dotted } else { format!("{front}:{dotted}") };
    plain.parse().ok().map(|address| (address, false))
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}
