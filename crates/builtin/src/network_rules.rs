//! Validates ports and addresses for several kinds.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;

pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Returns `true` for the server's own address in the Endpoints `default/kubernetes`. No other endpoint address may be
/// a loopback address.
pub(super) fn is_own_address(object: &Json, address: &str) -> bool {
    metadata::namespace(object) == "default"
        && metadata::name(object) == "kubernetes"
        && address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

pub(super) fn special_address(address: &str, path: &str) -> Option<FieldError> {
    let ip: IpAddr = address.parse().ok()?;
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let why = match () {
        () if ip.is_unspecified() => "may not be unspecified (0.0.0.0 or ::)",
        () if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        () if link_local => "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        () if is_link_local_multicast(ip) => "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        () => return None,
    };
    Some(FieldError::invalid_text(path, address, why))
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

pub(super) fn is_cidr(text: &str) -> bool {
    cidr_errors(text, "").is_none()
}

/// Validates a CIDR with kube-apiserver's strict rules for new values.
pub(super) fn cidr_errors(range: &str, field: &str) -> Option<FieldError> {
    const WHY: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let error = |why| Some(FieldError::invalid_text(field, range, why));
    let Some((address, length)) = range.split_once('/') else { return error(WHY) };
    let Some(read) = parse_lenient(address) else { return error(WHY) };
    let (bits, most) = match read {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    let is_number = !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit());
    let Some(count) = length.parse::<u32>().ok().filter(|count| is_number && *count <= most) else { return error(WHY) };
    let beyond = bits.checked_shl(count).unwrap_or(0);
    match () {
        () if address.parse::<IpAddr>().is_err() || length.len() > 1 && length.starts_with('0') => {
            error("must not have leading 0s in IP or prefix length")
        }
        () if is_mapped(read) => error("must not have an IPv4-mapped IPv6 address"),
        () if beyond != 0 => error("must not have bits set beyond the prefix length"),
        () => None,
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

/// Parses an IP address. Accepts leading zeros in an IPv4 address.
fn parse_lenient(address: &str) -> Option<IpAddr> {
    let plain = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        part => part.to_owned(),
    };
    let spelt: Vec<_> = address.split('.').map(plain).collect();
    let zeros = || spelt.join(".").parse::<Ipv4Addr>().ok().map(Into::into);
    address.parse().ok().or_else(zeros)
}

/// Validates a domain name, which must have at least two labels and may end with a dot.
pub(super) fn domain_errors(name: &str, field: &str) -> Option<FieldError> {
    if name.is_empty() {
        return Some(FieldError::required(field, ""));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong =
        |text: &str, why: Vec<String>| (!why.is_empty()).then(|| FieldError::invalid_text(field, text, why.join(",")));
    let whole = wrong(name, name_errors(NameRule::Subdomain, name, false));
    let few = || {
        let why = "should be a domain with at least two segments separated by dots";
        (!name.contains('.')).then(|| FieldError::invalid_text(field, name, why))
    };
    let label = || name.split('.').find_map(|label| wrong(label, name_errors(NameRule::Label, label, false)));
    whole.or_else(few).or_else(label)
}

/// Validates an IP address. Reports an address that is not in canonical form.
pub(super) fn strict_ip_errors(address: &str, field: &str) -> Option<FieldError> {
    ip_errors(address, field).or_else(|| {
        let canonical = address.parse::<IpAddr>().ok()?.to_string();
        let why = format!("must be in canonical form ({canonical:?})");
        (canonical != address).then(|| FieldError::invalid_text(field, address, why))
    })
}

/// Validates a CIDR. Reports a CIDR that is not in canonical form.
pub(super) fn strict_cidr_errors(range: &str, field: &str) -> Option<FieldError> {
    cidr_errors(range, field).or_else(|| {
        let (address, length) = range.split_once('/')?;
        let canonical = format!("{}/{length}", address.parse::<IpAddr>().ok()?);
        let why = format!("must be in canonical form ({canonical:?})");
        (canonical != range).then(|| FieldError::invalid_text(field, range, why))
    })
}

/// Validates the ingress addresses in the status of a load balancer, but accepts addresses that the old status
/// already has.
pub(super) fn load_balancer_status_errors(new: &Json, old: &Json) -> FieldErrors {
    const INGRESS: &str = "/status/loadBalancer/ingress";
    let before: HashSet<&str> = old.list(INGRESS).map(|ingress| ingress.text("/ip")).collect();
    let mut errors = FieldErrors::default();
    for (at, ingress) in new.list(INGRESS).enumerate() {
        let path = format!("status.loadBalancer.ingress[{at}]");
        let (ip, host) = (ingress.text("/ip"), ingress.text("/hostname"));
        if !ip.is_empty() && !before.contains(ip) {
            errors.extend(ip_errors(ip, &format!("{path}.ip")));
        }
        errors.extend(mode_error(new, ingress, &path));
        let field = format!("{path}.hostname");
        if !host.is_empty() {
            let why = name_errors(NameRule::Subdomain, host, false);
            errors.extend(why.iter().map(|why| FieldError::invalid_text(field.as_str(), host, why)));
            errors.invalid_text_if(ip_errors(host, "").is_none(), field, host, "must be a DNS name, not an IP address");
        }
    }
    errors
}

/// Validates the `ipMode` of an ingress address, which is allowed only in Services.
fn mode_error(object: &Json, ingress: &Json, path: &str) -> Option<FieldError> {
    const MODES: &[&str] = &["Proxy", "VIP"];
    if object.text("/kind") != "Service" {
        return None;
    }
    let field = format!("{path}.ipMode");
    let has_address = !ingress.text("/ip").is_empty();
    match ingress.get("ipMode").filter(|mode| !mode.is_null()) {
        None if has_address => Some(FieldError::required(field, "must be specified when `ip` is set")),
        None => None,
        Some(_) if !has_address => Some(FieldError::forbidden(field, "may not be specified when `ip` is not set")),
        Some(mode) if mode.as_str().is_some_and(|mode| MODES.contains(&mode)) => None,
        Some(mode) => Some(FieldError::unsupported(field, mode, MODES)),
    }
}

/// Validates an IP address with kube-apiserver's strict rules for new values.
pub(super) fn ip_errors(address: &str, field: &str) -> Option<FieldError> {
    let why = match (parse_lenient(address), address.parse::<IpAddr>()) {
        (None, _) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        (Some(_), Err(_)) => "must not have leading 0s",
        (Some(ip), Ok(_)) if is_mapped(ip) => "must not be an IPv4-mapped IPv6 address",
        (Some(_), Ok(_)) => return None,
    };
    Some(FieldError::invalid_text(field, address, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_cidrs_are_parsed_strictly() {
        let why = |error: Option<FieldError>| {
            error.map(|error| error.message.rsplit(": ").next().unwrap_or_default().to_owned())
        };
        for (address, expected) in [
            ("10.0.0.1", None),
            ("::1", None),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("10.0.00.1", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            ("x", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        ] {
            assert_eq!(ip_errors(address, "").is_some(), expected.is_some(), "{address}");
            assert!(
                expected.is_none_or(
                    |expected| ip_errors(address, "").is_some_and(|error| error.message.ends_with(expected))
                )
            );
        }
        for (range, expected) in [
            ("10.0.0.0/8", None),
            ("10.1.2.3/32", None),
            ("::/0", None),
            ("0.0.0.0/0", None),
            ("fd00::/64", None),
            ("10.0.0.1/8", Some("must not have bits set beyond the prefix length")),
            ("fd00::1/64", Some("must not have bits set beyond the prefix length")),
            ("010.0.0.0/8", Some("must not have leading 0s in IP or prefix length")),
            ("10.0.0.0/08", Some("must not have leading 0s in IP or prefix length")),
            ("::ffff:1.2.3.0/120", Some("must not have an IPv4-mapped IPv6 address")),
        ] {
            assert_eq!(why(cidr_errors(range, "")).as_deref(), expected, "{range}");
        }
        for range in ["10.0.0.0/33", "10.0.0.0", "10.0.0.0/", "10.0.0.0/+8", "x/8", "::/129"] {
            assert!(
                cidr_errors(range, "").is_some_and(|error| error.message.contains("must be a valid CIDR")),
                "{range}"
            );
        }
    }
}
