//! OpenID Connect logins, whose tokens are refreshed like in client-go's `oidc` auth provider.

mod token_writer;

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::{HeaderValue, Method};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use pintle_meta::__private::Mutex;
use pintle_meta::{ApiError, ClientConfig, OidcConfig, Secret, redacted_url};
use pintle_transport::ConfigError;
use pintle_transport::authorization::secret;
use pintle_transport::files::FileReader;
use serde::Deserialize;

use self::token_writer::{TokenWriter, Tokens};
use crate::auth::Credentials;
use crate::auth::renewal::{Credential, CredentialFuture, LEEWAY, Renewal, Source};
use crate::config::{RestClientConfig, Timeouts};
use crate::error::AuthError;
use crate::path::encode_query;
use crate::request::Request;
use crate::response::Response;
use crate::shared::Shared;

struct OidcLogin {
    config: OidcConfig,
    issuer: Arc<Shared>,
    origin: String,
    /// The path of the issuer URL, which is a prefix of the discovery document's path.
    path: String,
    /// The latest tokens, or `None` if the login has no refresh token.
    tokens: Mutex<Option<Tokens>>,
    token_writer: OnceLock<TokenWriter>,
    /// Creates the client for a token endpoint that has a different origin than the issuer. Returns the origin and the
    /// client.
    elsewhere: FileReader<(String, Result<Arc<Shared>, String>)>,
}

/// The timeout for a refresh, which consists of two requests.
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_SIZE: usize = 1 << 20;

/// All OpenID Connect logins that clients of this process use. Most issuers accept each refresh token only once, so
/// clients with the same configured refresh token share one login.
static LOGINS: Mutex<Vec<(Weak<Renewal>, Weak<OidcLogin>)>> = Mutex::new(Vec::new());

/// Returns the OpenID Connect login of a configuration. The tokens are only checked when a request needs them.
pub(crate) fn open(config: &OidcConfig) -> Result<Credentials, ConfigError> {
    let fault = |why: String| ConfigError::Value { field: "oidc", why };
    let url = config.issuer_url.trim();
    let Some((origin, path)) = origin(url) else {
        return Err(fault(format!("the issuer {:?} is not an https URL", redacted_url(url))));
    };
    let issuer = client(origin, config).map_err(|error| fault(error.to_string()))?;
    let first = config.id_token.as_ref().map(credential).transpose()?.filter(Credential::lasts);
    let issuer_url = redacted_url(url);
    let tokens =
        config.refresh_token.clone().map(|refresh| Tokens { id: config.id_token.clone().unwrap_or_default(), refresh });
    let login = OidcLogin {
        token_writer: config
            .token_store
            .clone()
            .map_or_else(OnceLock::new, |store| TokenWriter::new(store, &issuer_url).into()),
        issuer,
        origin: origin.into(),
        path: path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned(),
        tokens: Mutex::new(tokens),
        elsewhere: FileReader::new("the certificates of an issuer"),
        config: OidcConfig { issuer_url, id_token: None, ..config.clone() },
    };
    // `known` is declared before the lock guard, so it is dropped after the guard. Dropping the last reference to a
    // login drops its token store, which is user code.
    let known: Vec<_>;
    let mut logins = LOGINS.lock();
    logins.retain(|(renewal, _)| renewal.strong_count() > 0);
    // Upgrade the renewal first, because it contains the login. Otherwise, the login could be dropped under the lock.
    known = logins.iter().filter_map(|(renewal, login)| Some((renewal.upgrade()?, login.upgrade()?))).collect();
    if let Some((renewal, shared)) = known.iter().find(|(_, shared)| shared.is_of(&login)) {
        drop(logins);
        if let Some(token_writer) = login.token_writer.into_inner() {
            // Without this store, the next start would use a refresh token that the issuer has replaced.
            _ = shared.token_writer.set(token_writer);
        }
        return Ok(Credentials::Renewed(renewal.clone()));
    }
    let login = Arc::new(login);
    let renewal = Arc::new(Renewal::new(login.clone(), first));
    logins.push((Arc::downgrade(&renewal), Arc::downgrade(&login)));
    Ok(Credentials::Renewed(renewal))
}

/// Splits an HTTPS URL into its origin (scheme and authority) and its path.
fn origin(url: &str) -> Option<(&str, &str)> {
    let rest = url.get(..8).filter(|scheme| scheme.eq_ignore_ascii_case("https://")).map(|_| &url[8..])?;
    Some(url.split_at(8 + rest.find(['/', '?', '#']).unwrap_or(rest.len())))
}

fn client(origin: &str, config: &OidcConfig) -> Result<Arc<Shared>, ConfigError> {
    let mut server = ClientConfig::new(origin);
    server.tls.ca.clone_from(&config.ca);
    // Do not set a total timeout, because the client would send it as a query parameter, which issuers do not support.
    let timeouts = Timeouts { total: None, ..Timeouts::default() };
    let config = RestClientConfig { timeouts, max_body: MAX_SIZE, backoff: None, ..server.into() };
    Shared::new(config, open).map(Arc::new)
}

fn request(client: &Arc<Shared>, method: Method, target: &str) -> Request {
    Request::new(client.clone(), "/".into(), method).request_uri(target)
}

impl Source for OidcLogin {
    fn make(&self) -> CredentialFuture<'_> {
        Box::pin(async {
            let refreshed = tokio::time::timeout(TIMEOUT, self.refresh()).await;
            let refreshed = refreshed.unwrap_or_else(|_| Err(format!("it takes longer than {TIMEOUT:?}")));
            let (made, tokens) = refreshed.map_err(|why| self.fault(why))?;
            if let (Some(token_writer), Some(tokens)) = (self.token_writer.get(), tokens) {
                token_writer.keep(tokens).await;
            }
            made.map_err(|why| self.fault(why))
        })
    }

    /// Returns `false` if there is no refresh token.
    fn may_renew(&self) -> bool {
        self.tokens.lock().is_some()
    }

    /// Returns `true`, because aborting a refresh may lose the login: the issuer may already have invalidated the old
    /// refresh token.
    fn outlives_client(&self) -> bool {
        true
    }

    fn max_wait(&self) -> Duration {
        TIMEOUT + token_writer::TIMEOUT
    }

    fn fault(&self, why: String) -> AuthError {
        AuthError::Oidc { issuer: self.config.issuer_url.clone(), why }
    }
}

impl OidcLogin {
    /// Returns `true` if `other` configures the same login. Both logins must have the same issuer, client ID and client
    /// secret. The refresh token of `other` must be the configured or the current refresh token of this login.
    fn is_of(&self, other: &Self) -> bool {
        let Some(begins_with) = &other.config.refresh_token else { return false };
        let who = |login: &Self| {
            let OidcConfig { issuer_url, client_id, client_secret, .. } = login.config.clone();
            (issuer_url, client_id, client_secret)
        };
        let is_current = || self.tokens.lock().as_ref().is_some_and(|tokens| tokens.refresh == *begins_with);
        who(self) == who(other) && (self.config.refresh_token.as_ref() == Some(begins_with) || is_current())
    }

    /// Requests a new ID token, and returns the token or an error. The second result contains new tokens to store, if
    /// any.
    async fn refresh(&self) -> Result<(Result<Credential, String>, Option<Tokens>), String> {
        let before = self.tokens.lock().clone();
        let before = before.ok_or("it has expired, and there is no refresh token; log in again")?;
        let (client, target) = self.endpoint().await?;
        let answer = self.ask(&client, &target, &before.refresh).await?;
        let fresh = TokenResponse::read(answer.body())?;
        let mut tokens = before.clone();
        let made = match fresh.id_token.filter(|token| !token.is_empty()).map(Secret::new) {
            Some(token) => credential(&token).map_err(|error| error.to_string()).inspect(|_| tokens.id = token),
            None => Err("the issuer gave no id token; log in again, with the scope \"openid\"".into()),
        };
        // Keep the new refresh token even if the remaining response is invalid, because the issuer may have invalidated
        // the old token.
        if let Some(token) = fresh.refresh_token.filter(|token| !token.is_empty()) {
            tokens.refresh = Secret::new(token);
        }
        *self.tokens.lock() = Some(tokens.clone());
        Ok((made, (tokens != before).then_some(tokens)))
    }

    /// Reads the URL of the token endpoint from the discovery document of the issuer. Returns a client for this
    /// endpoint, and the path of the endpoint.
    async fn endpoint(&self) -> Result<(Arc<Shared>, String), String> {
        let document = request(&self.issuer, Method::GET, &format!("{}/.well-known/openid-configuration", self.path));
        let document = document.max_retries(2).send().await.map_err(|error| describe(&error))?;
        let url = Discovery::read(document.body())?.token_endpoint;
        // Refresh tokens are as sensitive as passwords, so never send them over plain HTTP.
        let Some((origin, target)) = origin(&url) else {
            return Err(format!("its token endpoint {:?} is not an https URL", redacted_url(&url)));
        };
        if origin == self.origin {
            return Ok((self.issuer.clone(), target.into()));
        }
        let (of, config) = (origin.to_owned(), self.config.clone());
        let made = self.elsewhere.read_again(move || {
            let made = client(&of, &config).map_err(|error| error.to_string());
            (of, made)
        });
        let (of, made) = made.await.map_err(|why| format!("its certificates: {why}"))?;
        // After a timeout, `read` returns the result of an earlier call, which may belong to a different origin.
        if of != origin {
            return Err(format!("its certificates cannot be read in time for {:?}", redacted_url(origin)));
        }
        Ok((made?, target.into()))
    }

    /// Requests new tokens. This method sends the request only once, because most issuers accept each refresh token
    /// only once. Like Go's oauth2 library, this method sends the client secret in a header, or in the body if the
    /// issuer rejects the header.
    async fn ask(&self, client: &Arc<Shared>, target: &str, refresh_token: &Secret) -> Result<Response, String> {
        let OidcConfig { client_id, client_secret, .. } = &self.config;
        let token = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
        let request = |form: &[(&str, &str)]| -> Request {
            let request = request(client, Method::POST, target).max_retries(0);
            let request = request.header("content-type", "application/x-www-form-urlencoded");
            request.header("accept", "application/json").body(encode_query(form.iter().copied()))
        };
        if let Some(secret) = client_secret {
            // Percent-encode the client ID and the secret separately, so that the only colon is the separator between
            // them.
            let pair = [client_id, secret.expose()].map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string());
            let pair = pair.join(":");
            let header = format!("Basic {}", BASE64_STANDARD.encode(pair));
            match request(&token).header("authorization", &header).send().await {
                Err(error) if is_another_client(&error) => {}
                outcome => return outcome.map_err(|error| describe(&error)),
            }
        }
        let mut form = token.to_vec();
        form.push(("client_id", client_id));
        form.extend(client_secret.iter().map(|secret| ("client_secret", secret.expose())));
        request(&form).send().await.map_err(|error| describe(&error))
    }
}

impl Credential {
    /// Returns `true` if the token is valid for longer than `LEEWAY`.
    fn lasts(&self) -> bool {
        let left = self.expires.and_then(|expires| expires.duration_since(SystemTime::now()).ok());
        left.is_some_and(|left| left > LEEWAY)
    }
}

fn credential(id_token: &Secret) -> Result<Credential, ConfigError> {
    let header: HeaderValue = secret("oidc", "Bearer", id_token.expose())?;
    Ok(Credential { header: Some(header), pair: None, expires: expiry(id_token.expose()) })
}

/// Returns the expiry time of an ID token, from its claim `exp`. The signature of the token is not verified.
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

#[derive(Deserialize)]
pub(crate) struct TokenResponse {
    pub(crate) id_token: Option<String>,
    pub(crate) refresh_token: Option<String>,
}

impl TokenResponse {
    /// Decodes the token endpoint's response. The error contains only the position of the problem, because serde's
    /// error message could quote the tokens.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let place = |error: serde_json::Error| format!("line {}, column {}", error.line(), error.column());
        serde_json::from_slice(body).map_err(|error| format!("its response contains no tokens ({})", place(error)))
    }
}

/// Returns `true` if the issuer rejected the client ID or the client secret. The rejection of a client does not
/// invalidate the refresh token.
fn is_another_client(error: &ApiError) -> bool {
    match refusal(body(error)) {
        Some(refusal) => refusal == "invalid_client",
        None => error.is_unauthorized(),
    }
}

fn body(error: &ApiError) -> &[u8] {
    error.response.as_deref().map_or(&[], |response| &response.body)
}

/// Describes why the issuer rejected a token request. The description omits all other parts of the response, because
/// they could contain secrets.
fn describe(error: &ApiError) -> String {
    match (error.status(), refusal(body(error))) {
        (_, Some(refusal @ "invalid_grant")) => {
            format!("the issuer rejected the refresh token ({refusal}); log in again")
        }
        (_, Some(refusal)) => format!("the issuer rejected the request for a new token ({refusal})"),
        (Some(status), None) => format!("the issuer responded with status {}", status.code),
        (None, None) => error.to_string(),
    }
}

/// Returns the error code in the response body if RFC 6749, section 5.2 defines this code.
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
