//! CIDRs, which are IP addresses with a prefix length.

use std::fmt;
use std::net::IpAddr;

use super::ip;
use crate::error::Failure;
use crate::go_text::quoted;

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
    pub(crate) fn bits(self) -> u8 {
        self.bits
    }

    pub(crate) fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the network with all address bits after the prefix set to 0.
    pub(crate) fn masked(self) -> Self {
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

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Self { address, ..self }.masked() == self.masked()
    }

    pub(crate) fn contains_all_of(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

pub(crate) fn parse(text: &str) -> Result<Cidr, Failure> {
    let context = "network address parse error during conversion from string";
    let cidr = parse_prefix(text).map_err(|reason| {
        Failure::new(format!("{context}: {context}: netip.ParsePrefix({}): {reason}", quoted(text)))
    })?;
    if ip::is_mapped(cidr.address) { Err(Failure::new(format!("{context}: {}", ip::mapped(text)))) } else { Ok(cidr) }
}

/// Parses an address with a prefix length. The error messages are the same as in Go's
/// `netip.ParsePrefix`.
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
