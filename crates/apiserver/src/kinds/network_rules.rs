//! What is said of ports and addresses, whatever kind has them.

use std::net::IpAddr;

use pintle_json::Json;

use crate::object::metadata;
use crate::validate::FieldFault;

/// The protocols of ports.
pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Whether the object tells with the address where this very server is: it listens on the loopback interface alone.
pub(super) fn is_of_this_server(object: &Json, address: &str) -> bool {
    metadata::namespace(object) == "default"
        && metadata::name(object) == "kubernetes"
        && address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Addresses that no endpoint has.
pub(super) fn special_address(address: &str, path: &str) -> Option<FieldFault> {
    let ip: IpAddr = address.parse().ok()?;
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let why = match () {
        () if ip.is_unspecified() => "may not be unspecified (0.0.0.0 or ::)",
        () if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        () if link_local => "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        () => return None,
    };
    Some(FieldFault::invalid_text(path, address, why))
}

/// Whether a text is a range of addresses.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

/// Why a text is no address. IPv4 with zeros in front of a number counts as one, as it always did.
pub(super) fn ip_faults(address: &str, field: &str) -> Option<FieldFault> {
    const WHY: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let plain: Vec<&str> = address
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            part => part,
        })
        .collect();
    let good = address.parse::<IpAddr>().is_ok() || plain.join(".").parse::<std::net::Ipv4Addr>().is_ok();
    (!good).then(|| FieldFault::invalid_text(field, address, WHY))
}
