//! Functions for IP addresses.

use std::net::IpAddr;

use super::{Function, Returned, one_text};
use crate::meter::Meter;
use crate::opaque::Opaque;
use crate::opaque::ip::parse;
use crate::value::Value;

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
        [Value::Opaque(Opaque::Cidr(cidr))] => Some(Ok(Value::Opaque(Opaque::Ip(cidr.address())))),
        _ => None,
    }
}

fn is_canonical<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let text = one_text(args)?;
    Some(parse(text).map(|address| Value::Bool(address.to_string() == text)))
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
