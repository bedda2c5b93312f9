//! Values of the types that the Kubernetes libraries define.

pub(crate) mod authorizer;
pub(crate) mod cidr;
pub(crate) mod ip;
pub(crate) mod named_format;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod url;

use std::net::IpAddr;
use std::sync::Arc;

use self::semver::Version;
use authorizer::{Authorization, Decision};
use cidr::Cidr;
use named_format::NamedFormat;
use quantity::Quantity;
use url::Url;

use crate::types::Type;

/// A value whose type is defined by a Kubernetes CEL library.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Opaque {
    /// An IP address.
    Ip(IpAddr),
    /// An IP address with a prefix length, such as `10.0.0.0/8`.
    Cidr(Cidr),
    /// A resource quantity.
    Quantity(Arc<Quantity>),
    /// A semantic version.
    Semver(Arc<Version>),
    /// A URL.
    Url(Arc<Url>),
    /// A named string format.
    Format(&'static NamedFormat),
    /// A permission check for the server's authorizer.
    Authorization(Arc<Authorization>),
    /// An authorizer's decision about a permission check.
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

    /// Returns the approximate units of work for comparing the value with an equal value.
    pub(crate) fn weight(&self) -> u64 {
        match self {
            // Include the length of a version, because the comparison visits each of its parts.
            Self::Semver(version) => 1 + version.length() as u64,
            Self::Url(url) => 1 + url.text().len() as u64 / 8,
            _ => 1,
        }
    }

    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Ip(address) => Some(if address.is_ipv4() { 4 } else { 16 }),
            Self::Cidr(cidr) => Some(u64::from(cidr.bits().div_ceil(8))),
            _ => None,
        }
    }
}
