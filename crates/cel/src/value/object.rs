//! Objects that expressions create, and values of types from Kubernetes' libraries.

use std::net::IpAddr;
use std::sync::Arc;

use super::Value;
use crate::library::authorizer::{Authorization, Decision};
use crate::library::{cidr::Cidr, named_format::NamedFormat, quantity::Quantity, semver::Version, url::Url};
use crate::types::Type;

/// An object with named fields, such as the result of `JSONPatch{op: 'add'}`.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    type_name: Arc<str>,
    fields: Vec<(Arc<str>, Value<'a>)>,
}

impl<'a> Object<'a> {
    pub(crate) fn new(type_name: Arc<str>, fields: Vec<(Arc<str>, Value<'a>)>) -> Self {
        Self { type_name, fields }
    }

    /// Returns the name of the object's type.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns an iterator over the fields.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.fields.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the value of the field with this name.
    pub fn field(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.iter().rev().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }
}

/// A value of a type from Kubernetes' libraries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Opaque {
    /// An IP address.
    Ip(IpAddr),
    /// An IP address with a prefix length.
    Cidr(Cidr),
    /// A resource quantity.
    Quantity(Arc<Quantity>),
    /// A semantic version.
    Semver(Arc<Version>),
    /// A URL.
    Url(Arc<Url>),
    /// A named format of strings.
    Format(&'static NamedFormat),
    /// A permission check that the authorizer of the server decides.
    Authorization(Arc<Authorization>),
    /// The answer of an authorizer.
    Decision(Arc<Decision>),
}

impl Opaque {
    pub(crate) fn type_of(&self) -> Type {
        match self {
            Self::Ip(_) => Type::Opaque("net.IP".into()),
            Self::Cidr(_) => Type::Opaque("net.CIDR".into()),
            Self::Quantity(_) => Type::Object("kubernetes.Quantity".into()),
            Self::Semver(_) => Type::Object("kubernetes.Semver".into()),
            Self::Url(_) => Type::Object("kubernetes.URL".into()),
            Self::Format(_) => Type::Object("kubernetes.NamedFormat".into()),
            Self::Authorization(question) => Type::Object(question.type_name().into()),
            Self::Decision(_) => Type::Object("kubernetes.authorization.Decision".into()),
        }
    }

    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Ip(address) => Some(if address.is_ipv4() { 4 } else { 16 }),
            Self::Cidr(cidr) => Some(u64::from(cidr.bits().div_ceil(8))),
            _ => None,
        }
    }
}
