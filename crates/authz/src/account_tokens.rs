//! Issues and verifies service account tokens. Each token contains claims and a signature by this server.
//!
//! The server does not store issued tokens. A token is valid only during its lifetime and for its audiences, and while
//! all objects that it is bound to exist with the same UIDs.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::quoted;
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::user::{ServiceAccountName, User};
use pintle_json::{Json, json};
use pintle_kinds::{Bound, ISSUER, Named};
use pintle_meta::__private::Mutex;
use pintle_meta::GroupResource;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The algorithm of token signatures. Signatures are deterministic.
const ALGORITHM: &str = "EdDSA";

/// The tolerated clock skew, in seconds.
const LEEWAY: i64 = 60;

const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// The claims of a token, with times in seconds since the epoch.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Claims {
    pub aud: Vec<String>,
    pub exp: i64,
    pub iat: i64,
    pub iss: String,
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub bound: Bound,
    pub nbf: i64,
    pub sub: String,
}

/// The reason why a token is invalid, or an empty string if the text does not look like a token from this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidToken(pub(super) String);

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("invalid bearer token"),
            why => write!(f, "[invalid bearer token, {why}]"),
        }
    }
}

/// The seed that determines a signing key and its signatures.
pub type KeySeed = [u8; 32];

/// The signing key for tokens, which is created on first use.
pub struct AccountTokens(Mutex<Option<Arc<SigningKey>>>);

struct SigningKey {
    seed: KeySeed,
    pair: Ed25519KeyPair,
}

impl SigningKey {
    fn new(seed: KeySeed) -> Option<Arc<Self>> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        Some(Arc::new(Self { seed, pair }))
    }
}

impl SigningKey {
    fn id(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.pair.public_key().as_ref()))
    }
}

impl fmt::Debug for AccountTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountTokens([redacted])")
    }
}

impl AccountTokens {
    /// Creates a signing key. If there is a seed, the key depends only on the seed.
    pub fn new(seed: Option<u64>) -> Self {
        let seed = seed.map(|seed| {
            let text = format!("service account tokens {seed}");
            Sha256::digest(text.as_bytes()).into()
        });
        Self(Mutex::new(seed.and_then(SigningKey::new)))
    }

    /// Returns the signing key's seed, or `None` if the system cannot provide random bytes.
    pub fn seed(&self) -> Option<KeySeed> {
        Some(self.key()?.seed)
    }

    /// Replaces the signing key, which makes tokens with signatures of the old key invalid.
    pub fn replace(&self, seed: KeySeed) {
        *self.0.lock() = SigningKey::new(seed);
    }

    /// Returns the public key as a JSON Web Key, or `None` if the system cannot provide random bytes.
    pub(super) fn public_key(&self) -> Option<Json> {
        let key = self.key()?;
        let public = URL_SAFE_NO_PAD.encode(key.pair.public_key().as_ref());
        let key = key.id();
        Some(json!({"use": "sig", "kty": "OKP", "kid": key, "crv": "Ed25519", "alg": ALGORITHM, "x": public}))
    }

    /// Signs claims and returns the token, or `None` if the system cannot provide random bytes.
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        let key = self.key()?;
        let part = |value: Json| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(json!({"alg": ALGORITHM, "kid": key.id()}));
        let signed = format!("{header}.{}", part(pintle_json::to_json(claims).ok()?));
        let signature = key.pair.sign(signed.as_bytes());
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Returns the user of a token, and the items of `audiences` for which the token is valid, in order. `now` is in
    /// seconds since the epoch. Returns an error if the token is not valid at this time, or is not valid for any of the
    /// audiences.
    pub(super) fn user(
        &self,
        cluster: &dyn Cluster,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Result<(User, Vec<String>), InvalidToken> {
        let claims = self.claims(token)?;
        let of_token: HashSet<&String> = claims.aud.iter().collect();
        let matching: Vec<_> = audiences.iter().filter(|audience| of_token.contains(audience)).cloned().collect();
        if matching.is_empty() {
            let (of, wanted) = (listed(&claims.aud), listed(audiences));
            return Err(InvalidToken(format!("token audiences {of} is invalid for the target audiences {wanted}")));
        }
        claims.check(cluster, now).map_err(InvalidToken)?;
        Ok((claims.user(), matching))
    }

    fn claims(&self, token: &str) -> Result<Claims, InvalidToken> {
        let (signed, signature) = token.rsplit_once('.').ok_or_else(InvalidToken::default)?;
        let (header, claims) = signed.split_once('.').ok_or_else(InvalidToken::default)?;
        let claims = read(claims).ok_or_else(InvalidToken::default)?;
        if claims["iss"] != ISSUER {
            return Err(InvalidToken::default());
        }
        let is_ours = || {
            let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
            let key = self.key()?;
            let key = UnparsedPublicKey::new(&ED25519, key.pair.public_key());
            (read(header)?["alg"] == ALGORITHM).then_some(())?;
            key.verify(signed.as_bytes(), &signature).ok()
        };
        is_ours().ok_or_else(|| InvalidToken("go-jose/go-jose: error in cryptographic primitive".into()))?;
        // Return an unexpected error. Decoding should succeed, because this server created and signed the claims.
        Claims::deserialize(&claims).map_err(|error| InvalidToken(error.to_string()))
    }

    fn key(&self) -> Option<Arc<SigningKey>> {
        let mut key = self.0.lock();
        if key.is_none() {
            let mut seed = KeySeed::default();
            SystemRandom::new().fill(&mut seed).ok()?;
            *key = SigningKey::new(seed);
        }
        key.clone()
    }
}

impl Claims {
    fn check(&self, cluster: &dyn Cluster, now: i64) -> Result<(), String> {
        if now - LEEWAY > self.exp {
            return Err("service account token has expired".into());
        }
        if now + LEEWAY < self.nbf {
            return Err("service account token is not valid yet".into());
        }
        if now + LEEWAY < self.iat {
            return Err("service account token is issued in the future".into());
        }
        let Bound { namespace, node, pod, secret, serviceaccount: account } = &self.bound;
        let object = |plural: &str, namespace: &str, name: &str| {
            cluster.object(&GroupResource::new("", plural), namespace, name)
        };
        let is_gone = |object: &Json| {
            let deleted = object["metadata"]["deletionTimestamp"].as_str();
            let deleted = deleted.and_then(|time| time.parse::<jiff::Timestamp>().ok());
            deleted.is_some_and(|deleted| deleted.as_second() < now - LEEWAY)
        };
        let name = &account.name;
        let found = object("serviceaccounts", namespace, name);
        let found = found.ok_or_else(|| format!("serviceaccounts {} not found", quoted(name)))?;
        check_uid(account, &found, |uid, claimed| {
            format!("service account UID ({uid}) does not match claim ({claimed})")
        })?;
        if is_gone(&found) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        // A token that is bound to a pod also names the pod's node. The server reports this node to clients, but does
        // not check whether it exists.
        let node = node.as_ref().filter(|_| pod.is_none());
        for (kind, namespace, bound) in
            [("secret", namespace.as_str(), secret.as_ref()), ("pod", namespace, pod.as_ref()), ("node", "", node)]
        {
            let Some(bound) = bound else { continue };
            let invalidated = || "service account token has been invalidated".to_owned();
            let found = object(&format!("{kind}s"), namespace, &bound.name).ok_or_else(invalidated)?;
            check_uid(bound, &found, |uid, claimed| {
                format!("{kind} UID ({uid}) does not match service account {kind} ref claim ({claimed})")
            })?;
            if is_gone(&found) {
                return Err(invalidated());
            }
        }
        Ok(())
    }

    fn user(&self) -> User {
        let Bound { namespace, node, pod, serviceaccount, .. } = &self.bound;
        let mut user = ServiceAccountName::new(namespace, &serviceaccount.name).user(&serviceaccount.uid);
        let mut extra = BTreeMap::from([(CREDENTIAL.to_owned(), vec![format!("JTI={}", self.jti)])]);
        for (kind, named) in [("pod", pod), ("node", node)] {
            let Some(Named { name, uid }) = named else { continue };
            for (part, value) in [("name", name), ("uid", uid)] {
                if !value.is_empty() {
                    extra.insert(format!("authentication.kubernetes.io/{kind}-{part}"), vec![value.clone()]);
                }
            }
        }
        user.extra = extra;
        user.with_implied_group()
    }
}

fn check_uid(claimed: &Named, found: &Json, why: impl FnOnce(&str, &str) -> String) -> Result<(), String> {
    let uid = metadata::uid(found);
    if uid == claimed.uid { Ok(()) } else { Err(why(uid, &claimed.uid)) }
}

fn read(part: &str) -> Option<Json> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// Formats a list of strings like Go's `%q` does for a slice.
fn listed(texts: &[String]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(" "))
}
