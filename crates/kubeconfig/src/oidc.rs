//! Reads the settings of the `oidc` auth provider, and writes new tokens to the kubeconfig.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use pintle_meta::{OidcConfig, PemSource, Secret, TokenStore};

use crate::files::Files;
use crate::types::AuthProvider;

const ISSUER: &str = "idp-issuer-url";
const CLIENT: &str = "client-id";
const ID_TOKEN: &str = "id-token";
const REFRESH_TOKEN: &str = "refresh-token";

/// Returns the OIDC login settings of a user, or an error message if the settings are invalid. `origin` is the file
/// that contains the user. `extra-scopes` is ignored as in client-go, because a token refresh requests the scopes of
/// the original login.
pub(crate) fn config(provider: &AuthProvider, user: &str, origin: Option<&Path>) -> Result<OidcConfig, String> {
    if provider.name != "oidc" {
        return Err(format!("{:?} is not supported; log in with exec, a token or a certificate", provider.name));
    }
    let optional = |name| provider.config.get(name).filter(|value| !value.expose().is_empty());
    let needed = |name| match optional(name) {
        Some(value) => Ok(value.expose().to_owned()),
        None => Err(format!("oidc requires {name}; set it")),
    };
    let ca = match (optional("idp-certificate-authority-data"), optional("idp-certificate-authority")) {
        (Some(data), _) => {
            let pem = BASE64_STANDARD.decode(data.expose());
            Some(PemSource::Inline(pem.map_err(|_| "idp-certificate-authority-data is not base64")?))
        }
        (None, Some(file)) => Some(PemSource::File(file.expose().into())),
        (None, None) => None,
    };
    let (issuer_url, client_id) = (needed(ISSUER)?, needed(CLIENT)?);
    let login = [ISSUER, CLIENT].map(|name| provider.config[name].clone());
    // Make the path absolute, so that it stays valid if the working directory changes.
    let file = origin.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.into()));
    let entry = file.map(|file| Entry { file, user: user.into(), login });
    Ok(OidcConfig {
        issuer_url,
        client_id,
        client_secret: optional("client-secret").cloned(),
        id_token: optional(ID_TOKEN).cloned(),
        refresh_token: optional(REFRESH_TOKEN).cloned(),
        ca,
        token_store: entry.map(|entry| Arc::new(entry) as Arc<dyn TokenStore>),
    })
}

/// The kubeconfig entry of the user that gets new tokens.
struct Entry {
    file: PathBuf,
    user: String,
    login: [Secret; 2],
}

impl TokenStore for Entry {
    fn store(&self, id_token: &Secret, refresh_token: &Secret) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let is_ours = |settings: &BTreeMap<String, Secret>| {
            [ISSUER, CLIENT].iter().zip(&self.login).all(|(name, value)| settings.get(*name) == Some(value))
        };
        let mut is_there = false;
        Files::explicit(&self.file).modify(|config| {
            let provider = config.users.get_mut(&self.user).and_then(|user| user.auth_provider.as_mut());
            if let Some(provider) = provider.filter(|provider| is_ours(&provider.config)) {
                provider.config.insert(ID_TOKEN.into(), id_token.clone());
                provider.config.insert(REFRESH_TOKEN.into(), refresh_token.clone());
                is_there = true;
            }
        })?;
        if is_there {
            Ok(())
        } else {
            Err(format!("{}: this login of {:?} no longer exists", self.file.display(), self.user).into())
        }
    }
}
