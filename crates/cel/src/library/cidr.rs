//! Functions for CIDRs, which are IP addresses with a prefix length.

use super::{Function, Returned, one_text};
use crate::error::Failure;
use crate::meter::Meter;
use crate::opaque::cidr::{Cidr, parse};
use crate::opaque::{Opaque, ip};
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "cidr" => |_, args| one_text(args).map(|text| parse(text).map(value)),
        "isCIDR" => |_, args| one_text(args).map(|text| Ok(Value::Bool(parse(text).is_ok()))),
        "containsIP" => contains_ip,
        "containsCIDR" => contains_cidr,
        "prefixLength" => |_, args| one(args).map(|cidr| Ok(Value::Int(i64::from(cidr.bits())))),
        "masked" => |_, args| one(args).map(|cidr| Ok(value(cidr.masked()))),
        _ => return None,
    })
}

fn value<'a>(cidr: Cidr) -> Value<'a> {
    Value::Opaque(Opaque::Cidr(cidr))
}

fn one(args: &[Value<'_>]) -> Option<Cidr> {
    match args {
        [Value::Opaque(Opaque::Cidr(cidr))] => Some(*cidr),
        _ => None,
    }
}

fn contains_ip<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Opaque(Opaque::Cidr(cidr)), Value::Opaque(Opaque::Ip(address))] => {
            Some(Ok(Value::Bool(cidr.contains(*address))))
        }
        // As in kube-apiserver, the error message does not contain the reason why the address is
        // invalid.
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
