//! The tokens of service accounts: what they claim, under a signature of this server's own.
//!
//! Nothing is kept of a token that was given out. Who shows one is its account, for as long as what it claims holds: its time, its
//! audience, and the objects that it is bound to, each with the uid that it had.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::rand;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_json::{Json, json};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::quoted;
use crate::kinds::{Bound, Cluster, GroupResource, Named};
use crate::object::metadata;
use crate::request::user::{ServiceAccountName, User};

/// Who gives the tokens out, and for whom they are unless their request says otherwise: this server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// How they are signed: in the same way each time.
const ALGORITHM: &str = "EdDSA";

/// How far the clocks of those who make and check tokens may disagree, in seconds.
const LEEWAY: i64 = 60;

const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// What a token claims. Times are seconds since the epoch.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Claims {
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) bound: Bound,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

/// Why a token is nobody's. Empty where nothing says that it was ever one of this server's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown(pub(super) String);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("invalid bearer token"),
            why => write!(f, "[invalid bearer token, {why}]"),
        }
    }
}

/// What a key is made of. Its signatures follow from it and what is signed alone.
pub(crate) type KeySeed = [u8; 32];

/// The key that tokens are signed with; made when the first is needed.
pub(crate) struct AccountTokens(Mutex<Option<Arc<SigningKey>>>);

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
    /// By which tokens name the key.
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
    /// With a seed, the key follows from that.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let seed = seed.map(|seed| {
            let text = format!("service account tokens {seed}");
            Sha256::digest(text.as_bytes()).into()
        });
        Self(Mutex::new(seed.and_then(SigningKey::new)))
    }

    /// What the key is made of; none if the system has no randomness to give.
    pub(crate) fn seed(&self) -> Option<KeySeed> {
        Some(self.key()?.seed)
    }

    /// Signs with another key from now on. Tokens under the present one are nobody's then.
    pub(crate) fn replace(&self, seed: KeySeed) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = SigningKey::new(seed);
    }

    /// The public key as a JSON Web Key; none if the system has no randomness to give.
    pub(super) fn public_key(&self) -> Option<Json> {
        let key = self.key()?;
        let public = URL_SAFE_NO_PAD.encode(key.pair.public_key().as_ref());
        let key = key.id();
        Some(json!({"use": "sig", "kty": "OKP", "kid": key, "crv": "Ed25519", "alg": ALGORITHM, "x": public}))
    }

    /// The claims as a token; none if the system has no randomness to give.
    pub(crate) fn sign(&self, claims: &Claims) -> Option<String> {
        let key = self.key()?;
        let part = |value: Json| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(json!({"alg": ALGORITHM, "kid": key.id()}));
        let signed = format!("{header}.{}", part(pintle_json::to_json(claims).ok()?));
        let signature = key.pair.sign(signed.as_bytes());
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Who is behind a token that was made for one of `audiences`, at `now` in seconds since the epoch; and for which of them, in
    /// their order.
    pub(super) fn user(
        &self,
        cluster: &dyn Cluster,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Result<(User, Vec<String>), Unknown> {
        let claims = self.claims(token)?;
        let of_token: HashSet<&String> = claims.aud.iter().collect();
        let meant: Vec<_> = audiences.iter().filter(|audience| of_token.contains(audience)).cloned().collect();
        if meant.is_empty() {
            let (of, wanted) = (listed(&claims.aud), listed(audiences));
            return Err(Unknown(format!("token audiences {of} is invalid for the target audiences {wanted}")));
        }
        claims.check(cluster, now).map_err(Unknown)?;
        Ok((claims.user(), meant))
    }

    /// What a token claims, if this server signed it.
    fn claims(&self, token: &str) -> Result<Claims, Unknown> {
        let (signed, signature) = token.rsplit_once('.').ok_or_else(Unknown::default)?;
        let (header, claims) = signed.split_once('.').ok_or_else(Unknown::default)?;
        let claims = read(claims).ok_or_else(Unknown::default)?;
        if claims["iss"] != ISSUER {
            return Err(Unknown::default());
        }
        let is_ours = || {
            let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
            let key = self.key()?;
            let key = UnparsedPublicKey::new(&ED25519, key.pair.public_key());
            (read(header)?["alg"] == ALGORITHM).then_some(())?;
            key.verify(signed.as_bytes(), &signature).ok()
        };
        is_ours().ok_or_else(|| Unknown("go-jose/go-jose: error in cryptographic primitive".into()))?;
        // What we signed can be read.
        Claims::deserialize(&claims).map_err(|error| Unknown(error.to_string()))
    }

    fn key(&self) -> Option<Arc<SigningKey>> {
        let mut key = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if key.is_none() {
            let mut seed = KeySeed::default();
            rand::fill(&mut seed).ok()?;
            *key = SigningKey::new(seed);
        }
        key.clone()
    }
}

impl Claims {
    /// Why the claims do not hold, if they do not.
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
        account.check_uid(&found, |uid, claimed| {
            format!("service account UID ({uid}) does not match claim ({claimed})")
        })?;
        if is_gone(&found) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        // The node of a pod that the token is bound to is told, and not looked at.
        let node = node.as_ref().filter(|_| pod.is_none());
        for (kind, namespace, bound) in
            [("secret", namespace.as_str(), secret.as_ref()), ("pod", namespace, pod.as_ref()), ("node", "", node)]
        {
            let Some(bound) = bound else { continue };
            let invalidated = || "service account token has been invalidated".to_owned();
            let found = object(&format!("{kind}s"), namespace, &bound.name).ok_or_else(invalidated)?;
            bound.check_uid(&found, |uid, claimed| {
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

impl Named {
    /// Fails if the object of that name is another one by now.
    fn check_uid(&self, found: &Json, why: impl FnOnce(&str, &str) -> String) -> Result<(), String> {
        let uid = metadata::uid(found);
        if uid == self.uid { Ok(()) } else { Err(why(uid, &self.uid)) }
    }
}

/// A part of a token as JSON.
fn read(part: &str) -> Option<Json> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// Texts as Go lists them.
fn listed(texts: &[String]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(" "))
}
