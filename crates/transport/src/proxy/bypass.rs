//! The rules of `NO_PROXY`, as in Go's `httpproxy`.

use std::net::IpAddr;

use crate::origin::split_port;

/// Returns `true` if a server must be reached without the proxy according to the comma-separated list `NO_PROXY`. Each
/// entry has one of the following forms:
///
/// - `*`: every server
/// - `10.0.0.0/8`: all addresses of a network
/// - `10.1.2.3`, `2001:db8::1`: an address
/// - `example.com`: this host and all of its subdomains
/// - `.example.com`, `*.example.com`: only subdomains
///
/// If an entry has a port, it only matches this port.
pub(crate) fn bypasses(list: &str, host: &str, port: u16) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        if let Some((network, bits)) = entry.split_once('/') {
            return address.is_some_and(|address| is_within(address, network, bits));
        }
        // An entry that can be parsed as an IP address has no port, even if it contains colons, like an IPv6 address
        // without brackets.
        let (name, of_port) = if entry.parse::<IpAddr>().is_ok() { (&*entry, None) } else { split_port(&entry) };
        if of_port.is_some_and(|of_port| of_port != port) {
            return false;
        }
        match (address, name.parse::<IpAddr>()) {
            (Some(address), Ok(listed)) => address == listed,
            (Some(_), Err(_)) | (None, Ok(_)) => false,
            (None, Err(_)) => is_beneath(&host, name),
        }
    })
}

fn is_beneath(host: &str, name: &str) -> bool {
    let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    match name.strip_prefix('.') {
        Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.')),
        None => host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
    }
}

fn is_within(address: IpAddr, network: &str, bits: &str) -> bool {
    let Ok(bits) = bits.parse::<u32>() else { return false };
    match (address, network.parse()) {
        (IpAddr::V4(address), Ok(IpAddr::V4(network))) if bits <= 32 => {
            (u32::from(address) ^ u32::from(network)).checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), Ok(IpAddr::V6(network))) if bits <= 128 => {
            (u128::from(address) ^ u128::from(network)).checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_names_hosts_networks_addresses_and_ports() {
        let list = "192.168.143.0/24, 10.1.2.3,2001:db8::/48,.sub.org,example.com,*.star.org,10.9.9.9:6443,port.org:80,fe80::1";
        for (host, port, direct) in [
            ("192.168.143.7", 443, true),
            ("192.168.144.7", 443, false),
            ("10.1.2.3", 6443, true),
            ("10.1.2.4", 6443, false),
            ("2001:db8::1", 443, true),
            ("2001:db9::1", 443, false),
            ("fe80::1", 443, true),
            ("a.sub.org", 443, true),
            ("sub.org", 443, false),
            ("example.com", 443, true),
            ("EXAMPLE.com.", 443, true),
            ("a.b.example.com", 443, true),
            ("notexample.com", 443, false),
            ("a.star.org", 443, true),
            ("star.org", 443, false),
            ("10.9.9.9", 6443, true),
            ("10.9.9.9", 443, false),
            ("port.org", 80, true),
            ("port.org", 443, false),
            ("other.org", 443, false),
        ] {
            assert_eq!(bypasses(list, host, port), direct, "{host}:{port}");
        }
    }

    #[test]
    fn no_proxy_star_matches_all_and_invalid_entries_nothing() {
        for (list, host, direct) in [
            ("*", "10.0.0.1", true),
            ("x,*", "host", true),
            ("", "host", false),
            (",, ,", "host", false),
            ("10.0.0.0/33", "10.0.0.1", false),
            ("0.0.0.0/0", "10.0.0.1", true),
            ("::/0", "::1", true),
            ("::/0", "10.0.0.1", false),
            ("10.0.0.0/x", "10.0.0.1", false),
        ] {
            assert_eq!(bypasses(list, host, 443), direct, "{list:?} {host}");
        }
    }
}
