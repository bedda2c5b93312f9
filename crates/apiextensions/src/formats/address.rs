//! Checks IP addresses, CIDR ranges and MAC addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns `true` for an IPv4 address, or an IPv6 address that ends with an IPv4 address. Accepts leading zeros in
/// numbers.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (ipv4(text).is_some() || ipv6(text).is_some())
}

/// Returns `true` for an IP address with a prefix length. Accepts leading zeros in numbers.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match (ipv4(address), ipv6(address)) {
        (Some(_), _) => 32,
        (None, Some(_)) => 128,
        (None, None) => return false,
    };
    length.bytes().all(|byte| byte.is_ascii_digit()) && length.parse::<u32>().is_ok_and(|length| length <= most)
}

fn ipv4(text: &str) -> Option<Ipv4Addr> {
    without_zeros(text, '.').parse().ok()
}

fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let (groups, last) = text.rsplit_once(':')?;
    let last = if last.contains('.') { without_zeros(last, '.') } else { without_zeros(last, ':') };
    format!("{}:{last}", without_zeros(groups, ':')).parse().ok()
}

fn without_zeros(text: &str, separator: char) -> String {
    let plain = |number: &str| {
        let rest = number.trim_start_matches('0');
        if rest.is_empty() && !number.is_empty() { "0".to_owned() } else { rest.to_owned() }
    };
    text.split(separator).map(plain).collect::<Vec<_>>().join(&separator.to_string())
}

/// Returns `true` for a MAC address of 6, 8 or 20 bytes. The address has pairs of hexadecimal digits with colons or
/// dashes between them, or groups of four digits with dots.
pub(super) fn is_mac(text: &str) -> bool {
    let groups = |separator: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<_> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|part| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}
