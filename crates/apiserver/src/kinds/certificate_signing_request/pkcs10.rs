//! PKCS #10 certification requests: whom they name, and whether they are signed with the key that they are for.

use rustls::crypto::aws_lc_rs::default_provider;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const BMP_STRING: u8 = 0x1e;
/// UTF8String, NumericString, PrintableString, T61String and IA5String.
const TEXTS: [u8; 5] = [0x0c, 0x12, 0x13, 0x14, 0x16];
/// 2.5.4.10, the name of an organisation.
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// A request, with what is needed of it.
#[derive(Debug)]
pub(super) struct CertificationRequest {
    pub(super) organizations: Vec<String>,
    /// What is signed.
    signed: Vec<u8>,
    key_algorithm: Vec<u8>,
    key: Vec<u8>,
    signature_algorithm: Vec<u8>,
    signature: Vec<u8>,
}

impl CertificationRequest {
    pub(super) fn parse(der: &[u8]) -> Result<Self, String> {
        Self::read(der).ok_or_else(|| "x509: malformed certificate request".into())
    }

    fn read(mut der: &[u8]) -> Option<Self> {
        let mut request = Der::take(&mut der, SEQUENCE)?.content;
        der.is_empty().then_some(())?;
        let info = Der::take(&mut request, SEQUENCE)?;
        let signature_algorithm = Der::take(&mut request, SEQUENCE)?.content;
        let signature = bits(&mut request)?;
        request.is_empty().then_some(())?;
        let mut rest = info.content;
        Der::take(&mut rest, INTEGER)?;
        let subject = Der::take(&mut rest, SEQUENCE)?.content;
        let mut key_info = Der::take(&mut rest, SEQUENCE)?.content;
        let key_algorithm = Der::take(&mut key_info, SEQUENCE)?.content;
        let key = bits(&mut key_info)?;
        Some(Self {
            organizations: organizations(subject)?,
            signed: info.whole.to_vec(),
            key_algorithm: key_algorithm.to_vec(),
            key: key.to_vec(),
            signature_algorithm: signature_algorithm.to_vec(),
            signature: signature.to_vec(),
        })
    }

    /// Fails unless it is signed with the key that it is for.
    pub(super) fn check_signature(&self) -> Result<(), String> {
        let known = default_provider().signature_verification_algorithms.all;
        let mut fitting = known.iter().filter(|algorithm| {
            *algorithm.public_key_alg_id() == *self.key_algorithm
                && *algorithm.signature_alg_id() == *self.signature_algorithm
        });
        let Some(algorithm) = fitting.next() else {
            return Err("x509: cannot verify signature: algorithm unimplemented".into());
        };
        let verified = algorithm.verify_signature(&self.key, &self.signed, &self.signature);
        verified.map_err(|_| "x509: signature verification failure".into())
    }
}

/// The organisations of a name. A text that is none of those that names are made of counts as none.
fn organizations(mut names: &[u8]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    while !names.is_empty() {
        let mut set = Der::take(&mut names, SET)?.content;
        while !set.is_empty() {
            let mut pair = Der::take(&mut set, SEQUENCE)?.content;
            let name = Der::take(&mut pair, OBJECT_ID)?.content;
            let value = Der::next(&mut pair)?;
            if name != ORGANIZATION {
                continue;
            }
            match value.tag {
                BMP_STRING => {
                    let units: Vec<_> = value
                        .content
                        .chunks(2)
                        .map(|pair| pair.iter().fold(0, |unit, byte| unit << 8 | u16::from(*byte)))
                        .collect();
                    found.push(String::from_utf16_lossy(&units));
                }
                tag if TEXTS.contains(&tag) => found.push(String::from_utf8_lossy(value.content).into_owned()),
                _ => (),
            }
        }
    }
    Some(found)
}

/// A string of whole bytes.
fn bits<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    Der::take(bytes, BIT_STRING)?.content.strip_prefix(&[0])
}

/// One element.
struct Der<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Der<'a> {
    /// Takes the next element, which has to be one of that tag.
    fn take(bytes: &mut &'a [u8], tag: u8) -> Option<Self> {
        Self::next(bytes).filter(|element| element.tag == tag)
    }

    fn next(bytes: &mut &'a [u8]) -> Option<Self> {
        let whole = *bytes;
        let (&tag, rest) = whole.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            // Of how many bytes the length is; a request has no need of more than four.
            let count = usize::from(first & 0x7f);
            if !(1..=4).contains(&count) {
                return None;
            }
            let (digits, after) = rest.split_at_checked(count)?;
            length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            rest = after;
        }
        let (content, after) = rest.split_at_checked(length)?;
        *bytes = after;
        Some(Self { tag, content, whole: &whole[..whole.len() - after.len()] })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    fn request(organization: DnValue) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "root");
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let key = KeyPair::generate().expect("a key");
        params.serialize_request(&key).expect("a request").der().to_vec()
    }

    #[test]
    fn a_request_names_its_organisations_in_any_encoding() {
        for organization in [
            DnValue::Utf8String("system:masters".into()),
            DnValue::PrintableString("system:masters".try_into().expect("printable")),
            DnValue::BmpString("system:masters".try_into().expect("in the plane")),
        ] {
            let request = CertificationRequest::parse(&request(organization)).expect("a request");
            assert_eq!(request.organizations, ["system:masters"]);
            assert_eq!(request.check_signature(), Ok(()));
        }
    }

    #[test]
    fn a_request_that_was_changed_is_not_signed() {
        let mut der = request(DnValue::Utf8String("nobody-here".into()));
        let at = der.windows(6).position(|bytes| bytes == b"nobody").expect("the organisation");
        der[at] = b'N';
        assert!(CertificationRequest::parse(&der).expect("a request").check_signature().is_err());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let der = request(DnValue::Utf8String("o".into()));
        for end in 0..der.len() {
            assert!(CertificationRequest::parse(&der[..end]).is_err(), "{end}");
        }
        for at in 0..der.len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut der = der.clone();
                der[at] = byte;
                let _ = CertificationRequest::parse(&der).and_then(|request| request.check_signature());
            }
        }
    }
}
