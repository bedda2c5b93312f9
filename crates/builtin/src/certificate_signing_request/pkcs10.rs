//! Parses PKCS #10 certification requests and checks their signatures.

use ring::signature::{
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY as SHA1, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY as SHA256,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY as SHA512, RsaParameters, UnparsedPublicKey,
};
use rustls::crypto::ring::default_provider;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const BMP_STRING: u8 = 0x1e;
/// The tags for UTF8String, NumericString, PrintableString, T61String and IA5String.
const TEXTS: [u8; 5] = [0x0c, 0x12, 0x13, 0x14, 0x16];
/// The object identifier 2.5.4.10 of an organization name.
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// The prefix of the object identifiers for RSA signature algorithms. In a certification request, this prefix is
/// followed by a byte for the digest and by null parameters.
const RSA_WITH: [u8; 10] = [OBJECT_ID, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const RSA_DIGESTS: [(u8, &RsaParameters); 3] = [(5, &SHA1), (11, &SHA256), (13, &SHA512)];

#[derive(Debug)]
pub(super) struct CertificationRequest {
    pub(super) organizations: Vec<String>,
    /// The bytes that the signature covers.
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

    /// Returns an error if the signature was not created with the key in the request.
    pub(super) fn check_signature(&self) -> Result<(), String> {
        if let Some(weak) = self.weak_algorithm() {
            let key = UnparsedPublicKey::new(weak, &self.key);
            let verified = key.verify(&self.signed, &self.signature);
            return verified.map_err(|_| "x509: signature verification failure".into());
        }
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

impl CertificationRequest {
    /// Returns the verification algorithm if the signature uses RSA with a weak key or digest. TLS does not allow such
    /// signatures, but certification requests may contain them.
    fn weak_algorithm(&self) -> Option<&'static RsaParameters> {
        let rest = self.signature_algorithm.strip_prefix(&RSA_WITH)?;
        RSA_DIGESTS.iter().find(|(digest, _)| rest == [*digest, 5, 0]).map(|(_, algorithm)| *algorithm)
    }
}

/// Returns the organizations in an X.509 name, and skips values that are not strings.
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

/// Reads a bit string whose length is a whole number of bytes.
fn bits<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    Der::take(bytes, BIT_STRING)?.content.strip_prefix(&[0])
}

struct Der<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Der<'a> {
    /// Reads the next element, or returns `None` if the element has another tag.
    fn take(bytes: &mut &'a [u8], tag: u8) -> Option<Self> {
        Self::next(bytes).filter(|element| element.tag == tag)
    }

    fn next(bytes: &mut &'a [u8]) -> Option<Self> {
        let whole = *bytes;
        let (&tag, rest) = whole.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            // The number of bytes that encode the length. Four bytes are enough for the length of any certification
            // request.
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
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    const WEAK: [&str; 3] = [
        "MIIBTTCBtwIBADAOMQwwCgYDVQQKDANvbGQwgZ8wDQYJKoZIhvcNAQEBBQADgY0AMIGJAoGBAMqYwvpAJqXUo22r5I3QX3qglEeX/pYKnO9bV0\
         jT/qmQOG7Y8lUltUjFqi0C0LJLH7yuxAB0s5/WQsplGJ8YQjz31YI2hzL+ESZMb5Hkkgq6tPV2CQz+RveEVogagkUyK2CV2+beBkX9OVSAKEBb\
         dVx78Rd907ro2YzUhyuh9g39AgMBAAGgADANBgkqhkiG9w0BAQUFAAOBgQDAsATnyYkJxSt8OEmnnKIrgCv6l4od2Q1/qzvHrdgeiQOtK2JAiJ\
         Lph4HsNZHVsHYpu/bhPyrBiJOZi5y7RXep1u5n4uYGax1ZI7pgav5KuXELEHC/T2s3gAbEugNMHvm3moaVaWMKA5V8zluf8YHtnmc0Ncqr34MS\
         0Tf7EuHqNg==",
        "MIIBTTCBtwIBADAOMQwwCgYDVQQKDANvbGQwgZ8wDQYJKoZIhvcNAQEBBQADgY0AMIGJAoGBALjUtl7DXGCB2HE+LHlVYsR+QjpkADhUwFuJYx\
         hJcmUqOcNLYZyMEnTHP4gU9MzHQZ5m4fIxlACik2gFcfgASyWiqeDwx1XNsuWwSblVYgueZ8Fn7wWL26i081N/SLV1bMo9WvqeJbcIUrLM8mar\
         wV6JwTQeiUkyuIMgxibakPh5AgMBAAGgADANBgkqhkiG9w0BAQsFAAOBgQBLRrEVJ5A5IEZgtOAKNuKIh4Vtk3+7vttIXBF98cmuC3eafXXJXU\
         gexriM4Zim4tLXQ1ewpFZvhe4zod6SOjBOCpi+8FUTiiMLqGHcVEzjvH6netCJFoRMjDZubSiNKLYHqUOj5G6VLwiXFsqsVtq4CIgsHWAIJeAu\
         a/YS2744iQ==",
        "MIIBTTCBtwIBADAOMQwwCgYDVQQKDANvbGQwgZ8wDQYJKoZIhvcNAQEBBQADgY0AMIGJAoGBAOXdKnAOAPItcuRUOzeenP2pks+eeBgElWB2wW\
         DNcuxGcn1rKB2NkK0koFD4bupcJPcc7wZipI9cQRoEyDF4tyCKNSX+6v5O66CC+/kr3lmKseVPu8R+SnSl1kKn9N2F8I6RHBxMuxA+JVO/Yqmy\
         2FKuFKPxse23ySJSGA0s9niPAgMBAAGgADANBgkqhkiG9w0BAQ0FAAOBgQAarQnGev1OvPBhCo2SaZnxL6GfCUhvApF0r782a4xgtCVMWOl3ek\
         ia5/DPJJs2Ry0nnePv5wwrqMMKWpPqAOQ0RJMuouE5KVNzyZd5vNGLUBe4ynzWFt9bukn4MxGmlGjBMW72KnKo/u6AXa3h7XFIS1MA+9kqs7X7\
         T16AC0VMcQ==",
    ];

    fn request(organization: DnValue) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "root");
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let key = KeyPair::generate().expect("a key");
        params.serialize_request(&key).expect("a request").der().to_vec()
    }

    #[test]
    fn organizations_are_read_in_any_encoding() {
        for organization in [
            DnValue::Utf8String("system:masters".into()),
            DnValue::PrintableString("system:masters".try_into().expect("printable")),
            DnValue::BmpString("system:masters".try_into().expect("a BMP string")),
        ] {
            let request = CertificationRequest::parse(&request(organization)).expect("a request");
            assert_eq!(request.organizations, ["system:masters"]);
            assert_eq!(request.check_signature(), Ok(()));
        }
    }

    #[test]
    fn weak_rsa_keys_and_digests_are_accepted() {
        for weak in WEAK {
            let der = STANDARD.decode(weak).expect("base64");
            let request = CertificationRequest::parse(&der).expect("a request");
            assert_eq!((request.check_signature(), &request.organizations[..]), (Ok(()), &["old".to_owned()][..]));
            let at = der.windows(3).position(|bytes| bytes == b"old").expect("the organisation");
            let mut changed = der;
            changed[at] = b'O';
            assert!(CertificationRequest::parse(&changed).expect("a request").check_signature().is_err());
        }
    }

    #[test]
    fn modified_request_fails_the_signature_check() {
        let mut der = request(DnValue::Utf8String("nobody-here".into()));
        let at = der.windows(6).position(|bytes| bytes == b"nobody").expect("the organisation");
        der[at] = b'N';
        assert!(CertificationRequest::parse(&der).expect("a request").check_signature().is_err());
    }

    #[test]
    fn truncated_and_corrupt_requests_do_not_panic() {
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
