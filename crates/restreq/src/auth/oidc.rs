//! Logins by OpenID Connect, refreshed as client-go's auth provider `oidc` refreshes them.

mod keeper;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::{HeaderValue, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use pintle_meta::{ClientConfig, OidcConfig, Secret, redacted_url};
use serde::Deserialize;

use self::keeper::{Keeper, Tokens};
use super::renewal::{Credential, LEEWAY, Renewal, Source};
use super::secret;
use crate::error::{AuthError, ConfigError};
use crate::files::FileReader;
use crate::request::path::encode_query;
use crate::{Error, Request, Response, RestClient, RestClientConfig, Timeouts};

/// A login at an issuer.
pub(crate) struct OidcLogin {
    config: OidcConfig,
    /// How to reach the issuer: by a client like any other, that asks as nobody.
    issuer: RestClient,
    /// Scheme and authority of its URL.
    origin: String,
    /// The rest, beneath which it tells of itself.
    path: String,
    /// The last that were given.
    tokens: Mutex<Option<Tokens>>,
    keeper: Option<Keeper>,
    /// Makes a client of another origin, and says of which: certificates are read for it.
    elsewhere: FileReader<(String, Result<RestClient, String>)>,
}

/// A refresh, with both questions that it takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that is read of an answer.
const LARGEST: usize = 1 << 20;

/// The logins that are in use. Most issuers take a refresh token once only, so clients that begin with the same one share what comes of it.
static LOGINS: Mutex<Vec<Weak<Renewal<OidcLogin>>>> = Mutex::new(Vec::new());

/// The login that a configuration describes. What it has of tokens is not judged here: whoever needs none has no need to log in again.
pub(crate) fn open(config: &OidcConfig) -> Result<Arc<Renewal<OidcLogin>>, ConfigError> {
    let fault = |why: String| ConfigError::Value { field: "oidc", why };
    let url = config.issuer_url.trim();
    let Some((origin, path)) = origin(url) else {
        return Err(fault(format!("the issuer {:?} is no https URL", redacted_url(url))));
    };
    let issuer = client(origin, config).map_err(|error| fault(error.to_string()))?;
    let first = config.id_token.as_ref().map(credential).transpose()?.filter(Credential::lasts);
    let issuer_url = redacted_url(url);
    let tokens =
        config.refresh_token.clone().map(|refresh| Tokens { id: config.id_token.clone().unwrap_or_default(), refresh });
    let login = OidcLogin {
        keeper: config.token_store.clone().map(|store| Keeper::new(store, &issuer_url)),
        issuer,
        origin: origin.into(),
        path: path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned(),
        tokens: Mutex::new(tokens),
        elsewhere: FileReader::new("the certificates of an issuer"),
        config: OidcConfig { issuer_url, id_token: None, ..config.clone() },
    };
    // Given up after the lock: with the last of a login goes a user's store of tokens.
    let known: Vec<_>;
    // Nothing panics half-way while it is held.
    let mut logins = LOGINS.lock().unwrap_or_else(PoisonError::into_inner);
    logins.retain(|login| login.strong_count() > 0);
    known = logins.iter().filter_map(Weak::upgrade).collect();
    if let Some(shared) = known.iter().find(|shared| shared.source().is_of(&login)) {
        return Ok(shared.clone());
    }
    let login = Arc::new(Renewal::new(login, first));
    logins.push(Arc::downgrade(&login));
    Ok(login)
}

/// Scheme and authority of an https URL, and what follows.
fn origin(url: &str) -> Option<(&str, &str)> {
    let rest = url.get(..8).filter(|scheme| scheme.eq_ignore_ascii_case("https://")).map(|_| &url[8..])?;
    Some(url.split_at(8 + rest.find(['/', '?', '#']).unwrap_or(rest.len())))
}

fn client(origin: &str, config: &OidcConfig) -> Result<RestClient, ConfigError> {
    let mut server = ClientConfig::new(origin);
    server.tls.ca.clone_from(&config.ca);
    // A deadline of the client's would be told to the issuer, in a parameter that it does not know.
    let timeouts = Timeouts { total: None, ..Timeouts::default() };
    RestClient::new(RestClientConfig { timeouts, max_body: LARGEST, backoff: None, ..server.into() })
}

impl Source for OidcLogin {
    async fn make(&self) -> Result<Credential, AuthError> {
        let refreshed = tokio::time::timeout(PATIENCE, self.refresh()).await;
        let refreshed = refreshed.unwrap_or_else(|_| Err(format!("it takes longer than {PATIENCE:?}")));
        let (made, tokens) = refreshed.map_err(|why| self.fault(why))?;
        if let (Some(keeper), Some(tokens)) = (&self.keeper, tokens) {
            keeper.keep(tokens).await;
        }
        made.map_err(|why| self.fault(why))
    }

    fn patience(&self) -> Duration {
        PATIENCE + keeper::PATIENCE
    }

    fn fault(&self, why: String) -> AuthError {
        AuthError::Oidc { issuer: self.config.issuer_url.clone(), why }
    }
}

impl OidcLogin {
    /// Whether there is anything to ask the issuer with.
    pub(crate) fn may_refresh(&self) -> bool {
        self.lock().is_some()
    }

    /// Whether another one, just made, is this: of the same client at the same issuer, beginning with the same refresh token or the one
    /// that there is by now.
    fn is_of(&self, other: &Self) -> bool {
        let Some(begins_with) = &other.config.refresh_token else { return false };
        let who = |login: &Self| (login.config.issuer_url.clone(), login.config.client_id.clone());
        let is_current = || self.lock().as_ref().is_some_and(|tokens| tokens.refresh == *begins_with);
        who(self) == who(other) && (self.config.refresh_token.as_ref() == Some(begins_with) || is_current())
    }

    /// Another id token, or what is wrong with it; and what is to be kept.
    async fn refresh(&self) -> Result<(Result<Credential, String>, Option<Tokens>), String> {
        let before = self.lock().clone();
        let before = before.ok_or("it has ended, and there is no refresh token; log in again")?;
        let (client, target) = self.endpoint().await?;
        let answer = self.ask(&client, &target, &before.refresh).await?;
        let fresh = TokenAnswer::read(answer.body())?;
        let mut tokens = before.clone();
        let made = match fresh.id_token.filter(|token| !token.is_empty()).map(Secret::new) {
            Some(token) => credential(&token).map_err(|error| error.to_string()).inspect(|_| tokens.id = token),
            None => Err("the issuer gave no id token; log in again, with the scope \"openid\"".into()),
        };
        // Whatever else is wrong with the answer, the one before may serve no more.
        if let Some(token) = fresh.refresh_token.filter(|token| !token.is_empty()) {
            tokens.refresh = Secret::new(token);
        }
        *self.lock() = Some(tokens.clone());
        Ok((made, (tokens != before).then_some(tokens)))
    }

    /// Where tokens are refreshed, as the issuer tells.
    async fn endpoint(&self) -> Result<(RestClient, String), String> {
        let document = self.issuer.get().request_uri(&format!("{}/.well-known/openid-configuration", self.path));
        let document = document.max_retries(2).send().await.map_err(|error| told(&error))?;
        let url = Discovery::read(document.body())?.token_endpoint;
        // A refresh token is as good as a password.
        let Some((origin, target)) = origin(&url) else {
            return Err(format!("its token endpoint {:?} is no https URL", redacted_url(&url)));
        };
        if origin == self.origin {
            return Ok((self.issuer.clone(), target.into()));
        }
        let (of, config) = (origin.to_owned(), self.config.clone());
        let made = self.elsewhere.read_anew(move || {
            let made = client(&of, &config).map_err(|error| error.to_string());
            (of, made)
        });
        let (of, made) = made.await.map_err(|why| format!("its certificates: {why}"))?;
        match of == origin {
            true => Ok((made?, target.into())),
            // What was read before, of another.
            false => Err(format!("its certificates cannot be read in time for {:?}", redacted_url(origin))),
        }
    }

    /// Asks for tokens: once, since most issuers take a refresh token once. As with Go's library, a client that has a secret shows it in
    /// a header, and in the body where that is not understood.
    async fn ask(&self, client: &RestClient, target: &str, refresh_token: &Secret) -> Result<Response, String> {
        let OidcConfig { client_id, client_secret, .. } = &self.config;
        let token = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
        let request = |form: &[(&str, &str)]| -> Request {
            let request = client.post().request_uri(target).max_retries(0);
            let request = request.header("content-type", "application/x-www-form-urlencoded");
            request.header("accept", "application/json").body(encode_query(form.iter().copied()))
        };
        if let Some(secret) = client_secret {
            // Each by itself is escaped: a colon divides them.
            let pair = [client_id, secret.expose()].map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string());
            let pair = pair.join(":");
            let header = format!("Basic {}", BASE64_STANDARD.encode(pair));
            match request(&token).header("authorization", &header).send().await {
                Err(error) if is_another_client(&error) => {}
                outcome => return outcome.map_err(|error| told(&error)),
            }
        }
        let mut form = token.to_vec();
        form.push(("client_id", client_id));
        form.extend(client_secret.iter().map(|secret| ("client_secret", secret.expose())));
        request(&form).send().await.map_err(|error| told(&error))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Tokens>> {
        // Nothing panics half-way while it is held.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Credential {
    /// Whether it serves until a time that is not near.
    fn lasts(&self) -> bool {
        let left = self.expires.and_then(|expires| expires.duration_since(SystemTime::now()).ok());
        left.is_some_and(|left| left > LEEWAY)
    }
}

fn credential(id_token: &Secret) -> Result<Credential, ConfigError> {
    let header: HeaderValue = secret("oidc", "Bearer", id_token.expose())?;
    Ok(Credential { header: Some(header), pair: None, expires: expiry(id_token.expose()) })
}

/// When a token ends, as stands in it. Whether it is genuine is the server's matter.
pub(crate) fn expiry(id_token: &str) -> Option<SystemTime> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let [_, claims, _] = *id_token.split('.').collect::<Vec<_>>() else { return None };
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(exp).ok()?)
}

/// What an issuer tells of itself, as far as it matters here.
#[derive(Deserialize)]
pub(crate) struct Discovery {
    pub(crate) token_endpoint: String,
}

impl Discovery {
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let place = |error: serde_json::Error| format!("line {}, column {}", error.line(), error.column());
        serde_json::from_slice(body)
            .map_err(|error| format!("its description names no token endpoint ({})", place(error)))
    }
}

/// What an issuer answers to who asks for tokens.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    pub(crate) id_token: Option<String>,
    pub(crate) refresh_token: Option<String>,
}

impl TokenAnswer {
    /// The error says where it is wrong, and not more: serde's message could quote the tokens.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let place = |error: serde_json::Error| format!("line {}, column {}", error.line(), error.column());
        serde_json::from_slice(body).map_err(|error| format!("its answer holds no tokens ({})", place(error)))
    }
}

/// Whether an issuer does not know the client as it has shown itself, and so has not looked at its token.
fn is_another_client(error: &Error) -> bool {
    match error {
        Error::Status { status, body, .. } => match refusal(body) {
            Some(refusal) => refusal == "invalid_client",
            None => status.code == StatusCode::UNAUTHORIZED.as_u16(),
        },
        _ => false,
    }
}

/// How asking has failed. What a refusal says beside its code could quote what was sent.
fn told(error: &Error) -> String {
    match error {
        Error::Status { status, body, .. } => match refusal(body) {
            Some(refusal @ "invalid_grant") => {
                format!("the issuer refuses the refresh token ({refusal}); log in again")
            }
            Some(refusal) => format!("the issuer refuses to give another token ({refusal})"),
            None => format!("the issuer answers {}", status.code),
        },
        error => error.to_string(),
    }
}

/// The code of a refusal, if it is one of RFC 6749, section 5.2.
pub(crate) fn refusal(body: &[u8]) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    const KNOWN: [&str; 6] = [
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    ];
    let Refusal { error } = serde_json::from_slice(body).ok()?;
    KNOWN.into_iter().find(|known| *known == error)
}
