//! IP addresses with a prefix length.

use std::fmt;
use std::net::IpAddr;

use super::{Function, Returned, ip, one_text};
use crate::error::Failure;
use crate::meter::Meter;
use crate::value::{Opaque, Value, quoted};

/// An IP address with a prefix length, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    /// Returns the number of bits in the prefix.
    pub(crate) fn bits(self) -> u8 {
        self.bits
    }

    /// Returns the network with all address bits after the prefix set to 0.
    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Self { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Self { address, ..self }.masked() == self.masked()
    }

    fn contains_all_of(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "cidr" => |_, args| one_text(args).map(|text| parse(text).map(value)),
        "isCIDR" => |_, args| one_text(args).map(|text| Ok(Value::Bool(parse(text).is_ok()))),
        "containsIP" => contains_ip,
        "containsCIDR" => contains_cidr,
        "prefixLength" => |_, args| one(args).map(|cidr| Ok(Value::Int(i64::from(cidr.bits)))),
        "masked" => |_, args| one(args).map(|cidr| Ok(value(cidr.masked()))),
        _ => return None,
    })
}

fn value<'a>(cidr: Cidr) -> Value<'a> {
    Value::Opaque(Opaque::Cidr(cidr))
}

pub(super) fn address<'a>(cidr: &Cidr) -> Value<'a> {
    Value::Opaque(Opaque::Ip(cidr.address))
}

fn one(args: &[Value<'_>]) -> Option<Cidr> {
    match args {
        [Value::Opaque(Opaque::Cidr(cidr))] => Some(*cidr),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Cidr, Failure> {
    let context = "network address parse error during conversion from string";
    let cidr = parse_prefix(text).map_err(|reason| {
        Failure::new(format!("{context}: {context}: netip.ParsePrefix({}): {reason}", quoted(text)))
    })?;
    match ip::is_mapped(cidr.address) {
        true => Err(Failure::new(format!("{context}: {}", ip::mapped(text)))),
        false => Ok(cidr),
    }
}

/// Parses a prefix. The error message is the text of Go's `netip.ParsePrefix`.
fn parse_prefix(text: &str) -> Result<Cidr, String> {
    let (address, bits) = text.rsplit_once('/').ok_or("no '/'")?;
    let (address, zoned) = ip::parse_zoned(address)?;
    if zoned {
        return Err("IPv6 zones cannot be present in a prefix".into());
    }
    let bad = || format!("bad bits after slash: {}", quoted(bits));
    let valid = bits.bytes().all(|byte| byte.is_ascii_digit()) && (bits.len() == 1 || !bits.starts_with('0'));
    let bits: u64 = valid.then(|| bits.parse().ok()).flatten().ok_or_else(bad)?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    match u8::try_from(bits) {
        Ok(bits) if bits <= max => Ok(Cidr { address, bits }),
        _ => Err("prefix length out of range".into()),
    }
}

fn contains_ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Ip(address))] => {
            Some(Ok(Value::Bool(cidr.contains(*address))))
        }
        // As in kube-apiserver, the message does not say why the text is invalid.
        [Value::Opaque(Opaque::Cidr(cidr)), Value::String(text)] => {
            let address = ip::parse(text).map_err(|_| Failure::no_overload());
            Some(address.map(|address| Value::Bool(cidr.contains(address))))
        }
        _ => None,
    }
}

fn contains_cidr<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Cidr(other))] => {
            Some(Ok(Value::Bool(cidr.contains_all_of(*other))))
        }
        [Value::Opaque(Opaque::Cidr(cidr)), Value::String(text)] => {
            Some(parse(text).map(|other| Value::Bool(cidr.contains_all_of(other))))
        }
        _ => None,
    }
}
