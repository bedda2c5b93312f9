//! Creates a client configuration from a kubeconfig and overrides.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pintle_meta::{
    BasicAuth, ClientConfig, ExecConfig, Impersonate, InteractiveMode, PemSource, Secret, TlsClientConfig,
    debug_fields, redacted_url,
};

use crate::data::Data;
use crate::error::Error;
use crate::oidc;
use crate::types::{AuthInfo, ClusterInfo, Context, Exec, Kubeconfig};
use crate::validate::Report;

/// Values that take precedence over the values in kubeconfig files, with one field per kubectl flag.
///
/// Fields that are `None` or empty have no effect. Some overrides replace several values:
///
/// - Setting a certificate authority, or setting `insecure_skip_tls_verify` to `Some(true)`, replaces all settings for
///   verifying the server.
/// - Setting a certificate or key replaces both the file and the inline data in the kubeconfig.
/// - Setting a server also replaces the `tls-server-name` of the kubeconfig, even if `tls_server_name` is `None`.
///
/// Setting `insecure_skip_tls_verify` to `Some(false)` enables verification of the server with the CA from the
/// kubeconfig, if any.
///
/// # Examples
///
/// ```
/// use pintle_kubeconfig::{Kubeconfig, Overrides};
///
/// let overrides = Overrides {
///     server: Some("https://localhost:6443".into()),
///     insecure_skip_tls_verify: Some(true),
///     ..Overrides::default()
/// };
/// let config = Kubeconfig::default().client_config(&overrides)?;
/// assert!(config.tls.insecure_skip_verify);
/// # Ok::<(), pintle_kubeconfig::Error>(())
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Overrides {
    /// The context to use instead of `current-context`.
    pub context: Option<String>,
    /// The existing cluster to use instead of the context's cluster.
    pub cluster: Option<String>,
    /// The existing user to use instead of the context's user.
    pub user: Option<String>,
    /// The default namespace for requests.
    pub namespace: Option<String>,
    /// The server's URL.
    pub server: Option<String>,
    /// The host name to expect in the server's certificate, instead of the host in the URL.
    pub tls_server_name: Option<String>,
    /// Whether to accept any server certificate without verifying it.
    pub insecure_skip_tls_verify: Option<bool>,
    /// The path of a file with the CA certificates that are trusted for the server.
    pub certificate_authority: Option<PathBuf>,
    /// The proxy's URL.
    pub proxy_url: Option<String>,
    /// Whether to request uncompressed responses.
    pub disable_compression: Option<bool>,
    /// The path of the client certificate chain.
    pub client_certificate: Option<PathBuf>,
    /// The path of the private key for the client certificate.
    pub client_key: Option<PathBuf>,
    /// The bearer token, which replaces both the token and the token file of the user.
    pub token: Option<Secret>,
    /// The path of a bearer token file, which replaces both the token and the token file of the user. If `token` is
    /// also set, the client uses `token` first, and later tokens from the file.
    pub token_file: Option<PathBuf>,
    /// The user name for basic authentication.
    pub username: Option<String>,
    /// The password for basic authentication.
    pub password: Option<Secret>,
    /// The user to impersonate.
    pub impersonate: Option<String>,
    /// The UID to impersonate. If this field is set, `impersonate` must be set too.
    pub impersonate_uid: Option<String>,
    /// The groups to impersonate. If this list is not empty, `impersonate` must be set too.
    pub impersonate_groups: Vec<String>,
    /// The extra attributes to impersonate. Each extra attribute replaces the kubeconfig's extra attribute with the
    /// same name. Setting extra attributes requires `impersonate`.
    pub impersonate_extra: BTreeMap<String, Vec<String>>,
    /// The timeout for an entire request. A timeout of zero means no timeout.
    pub timeout: Option<Duration>,
}

debug_fields!(Overrides {
    context, cluster, user, namespace, server => |url: &Option<String>| url.as_deref().map(redacted_url),
    tls_server_name, insecure_skip_tls_verify, certificate_authority,
    proxy_url => |url: &Option<String>| url.as_deref().map(redacted_url), disable_compression,
    client_certificate, client_key, token, token_file, username, password, impersonate, impersonate_uid,
    impersonate_groups, impersonate_extra, timeout,
});

impl Kubeconfig {
    /// Returns the client configuration for the cluster and the user of the chosen context.
    ///
    /// As in client-go, the client uses credentials and certificates only with `https`. For an `http` server, such as
    /// `kubectl proxy`, the client configuration contains no credentials and no CA certificates. `client_config` checks
    /// that the certificate files can be opened, but does not read them.
    ///
    /// # Errors
    ///
    /// - [`Error::NoContext`] if the kubeconfig and the overrides choose no context.
    /// - [`Error::NotFound`] if the chosen context, cluster or user does not exist.
    /// - [`Error::Invalid`] if the chosen context, its cluster or its user is invalid. The error lists all problems of
    ///   these three entries, and ignores problems of other entries.
    pub fn client_config(&self, overrides: &Overrides) -> Result<ClientConfig, Error> {
        let overrides = &overrides.without_empty();
        let (context_name, context) = self.chosen_context(overrides)?;
        let cluster_name = overrides.cluster.as_deref().unwrap_or(&context.cluster);
        let user_name = overrides.user.as_deref().unwrap_or(&context.user);
        if let Some(name) = &overrides.cluster {
            self.clusters.get(name).ok_or_else(|| self.not_found("cluster", name))?;
        }
        if let Some(name) = &overrides.user {
            self.users.get(name).ok_or_else(|| self.not_found("user", name))?;
        }
        if !context_name.is_empty() && overrides.cluster.is_none() && overrides.user.is_none() {
            // For a missing cluster or user, validation reports a problem of the context.
            self.references(context_name)?;
        }
        let cluster = overrides.on_cluster(self.clusters.get(cluster_name).cloned().unwrap_or_default());
        let user = overrides.on_user(self.users.get(user_name).cloned().unwrap_or_default());
        let mut report = Report::default();
        report.cluster(cluster_name, &cluster);
        if !user_name.is_empty() || user != AuthInfo::default() {
            report.user(user_name, &user);
        }
        report.scheme(cluster_name, &cluster, &user);
        report.finish()?;

        let mut config = ClientConfig::new(&cluster.server);
        config.namespace = overrides.namespace.clone().unwrap_or_else(|| context.namespace.clone());
        config.proxy_url = Some(cluster.proxy_url.clone()).filter(|url| !url.is_empty());
        config.disable_compression = cluster.disable_compression;
        config.timeout = overrides.timeout.filter(|timeout| !timeout.is_zero());
        config.impersonate = impersonate(&user);
        if cluster.server.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            let login = user.auth_provider.clone().map(|provider| (provider, user.origin.clone()));
            let has_other = credentials(&mut config, &cluster, user);
            let has_credentials = config.token.is_some() || config.token_file.is_some() || config.basic.is_some();
            if let Some((provider, origin)) = login.filter(|_| !has_credentials) {
                match oidc::config(&provider, user_name, origin.as_deref()) {
                    Ok(oidc) => config.oidc = Some(oidc),
                    // Ignore the auth provider if the user has other credentials.
                    Err(_) if has_other => {}
                    Err(message) => {
                        let mut report = Report::default();
                        report.provider(user_name, origin, message);
                        report.finish()?;
                    }
                }
            }
        }
        Ok(config)
    }

    /// Returns the namespace of the chosen context, and whether the overrides set the namespace. A context without a
    /// namespace has the namespace `default`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NoContext`] if the kubeconfig and the overrides choose no context. Returns [`Error::NotFound`]
    /// if the chosen context does not exist.
    pub fn namespace(&self, overrides: &Overrides) -> Result<(String, bool), Error> {
        let overrides = &overrides.without_empty();
        if let Some(namespace) = &overrides.namespace {
            return Ok((namespace.clone(), true));
        }
        let (_, context) = self.chosen_context(overrides)?;
        let namespace = if context.namespace.is_empty() { "default" } else { &context.namespace };
        Ok((namespace.into(), false))
    }

    fn chosen_context(&self, overrides: &Overrides) -> Result<(&str, Context), Error> {
        let name = overrides.context.as_deref().unwrap_or(&self.current_context);
        match self.contexts.get_key_value(name) {
            Some((name, context)) => Ok((name, context.clone())),
            None if !name.is_empty() => Err(self.not_found("context", name)),
            // The client needs no context, because the overrides name a cluster or a server.
            None if overrides.cluster.is_some() || overrides.server.is_some() => Ok(("", Context::default())),
            None => Err(Error::NoContext { known: self.contexts.keys().cloned().collect() }),
        }
    }

    fn references(&self, context: &str) -> Result<(), Error> {
        match self.validate_context(context) {
            Err(Error::Invalid(problems)) => {
                let of_context: Vec<_> =
                    problems.into_iter().filter(|problem| problem.field.starts_with("contexts[")).collect();
                if of_context.is_empty() { Ok(()) } else { Err(Error::Invalid(of_context)) }
            }
            other => other,
        }
    }
}

impl Overrides {
    /// Returns a copy with `None` instead of empty strings, because programs may pass an empty string for an unset
    /// flag.
    pub(crate) fn without_empty(&self) -> Self {
        let mut set = self.clone();
        let texts = [&mut set.context, &mut set.cluster, &mut set.user, &mut set.namespace, &mut set.server];
        let more = [&mut set.tls_server_name, &mut set.proxy_url, &mut set.username, &mut set.impersonate];
        for text in texts.into_iter().chain(more).chain([&mut set.impersonate_uid]) {
            text.take_if(|text| text.is_empty());
        }
        let paths = [&mut set.certificate_authority, &mut set.client_certificate, &mut set.client_key];
        for path in paths.into_iter().chain([&mut set.token_file]) {
            path.take_if(|path| path.as_os_str().is_empty());
        }
        for secret in [&mut set.token, &mut set.password] {
            secret.take_if(|secret| secret.expose().is_empty());
        }
        set
    }

    fn on_cluster(&self, mut cluster: ClusterInfo) -> ClusterInfo {
        if let Some(server) = &self.server {
            cluster.server.clone_from(server);
            cluster.tls_server_name.clear();
        }
        if let Some(name) = &self.tls_server_name {
            cluster.tls_server_name.clone_from(name);
        }
        if self.insecure_skip_tls_verify == Some(true) || self.certificate_authority.is_some() {
            cluster.certificate_authority.clone_from(&self.certificate_authority);
            cluster.certificate_authority_data = None;
            cluster.insecure_skip_tls_verify = false;
        }
        if let Some(insecure) = self.insecure_skip_tls_verify {
            cluster.insecure_skip_tls_verify = insecure;
        }
        if let Some(proxy) = &self.proxy_url {
            cluster.proxy_url.clone_from(proxy);
        }
        // With a leading space, the URL would not start with `https`, and the client would not send any credentials.
        cluster.server = cluster.server.trim().to_owned();
        cluster.disable_compression = self.disable_compression.unwrap_or(cluster.disable_compression);
        cluster
    }

    fn on_user(&self, mut user: AuthInfo) -> AuthInfo {
        if let Some(certificate) = &self.client_certificate {
            user.client_certificate = Some(certificate.clone());
            user.client_certificate_data = None;
        }
        if let Some(key) = &self.client_key {
            user.client_key = Some(key.clone());
            user.client_key_data = None;
        }
        let has_token = self.token.is_some() || self.token_file.is_some();
        if has_token {
            (user.token, user.token_file) = (self.token.clone(), self.token_file.clone());
        }
        if let Some(username) = &self.username {
            user.username.clone_from(username);
        }
        if let Some(password) = &self.password {
            user.password = Some(password.clone());
        }
        if has_token {
            (user.username, user.password) = (String::new(), None);
        } else if self.username.is_some() || self.password.is_some() {
            (user.token, user.token_file) = (None, None);
        }
        if let Some(whom) = &self.impersonate {
            user.impersonate.clone_from(whom);
        }
        if let Some(uid) = &self.impersonate_uid {
            user.impersonate_uid.clone_from(uid);
        }
        if !self.impersonate_groups.is_empty() {
            user.impersonate_groups.clone_from(&self.impersonate_groups);
        }
        user.impersonate_extra.extend(self.impersonate_extra.clone());
        user
    }
}

/// Adds a user's credentials to `config`, and returns `true` if the user has any.
fn credentials(config: &mut ClientConfig, cluster: &ClusterInfo, user: AuthInfo) -> bool {
    config.tls = TlsClientConfig {
        ca: pem(cluster.certificate_authority.clone(), cluster.certificate_authority_data.clone()),
        certificate: pem(user.client_certificate, user.client_certificate_data),
        key: pem(user.client_key, user.client_key_data),
        server_name: Some(cluster.tls_server_name.clone()).filter(|name| !name.is_empty()),
        insecure_skip_verify: cluster.insecure_skip_tls_verify,
    };
    // Omit a private key without a certificate, because TLS requires both.
    if config.tls.certificate.is_none() {
        config.tls.key = None;
    }
    config.token = user.token;
    config.token_file = user.token_file;
    if !user.username.is_empty() || user.password.is_some() {
        config.basic = Some(BasicAuth { username: user.username, password: user.password.unwrap_or_default() });
    }
    let has_token = config.token.is_some() || config.token_file.is_some();
    let has_other = has_token || config.basic.is_some() || config.tls.certificate.is_some();
    if !has_other {
        config.exec = user.exec.map(|exec| exec_config(exec, cluster));
    }
    has_other || config.exec.is_some()
}

fn exec_config(exec: Exec, cluster: &ClusterInfo) -> ExecConfig {
    const EXTENSION: &str = "client.authentication.k8s.io/exec";
    ExecConfig {
        api_version: exec.api_version,
        command: exec.command,
        args: exec.args,
        env: exec
            .env
            .into_iter()
            .map(|variable| (variable.name, variable.value.unwrap_or_default().expose().into()))
            .collect(),
        install_hint: Some(exec.install_hint).filter(|hint| !hint.is_empty()),
        provide_cluster_info: exec.provide_cluster_info,
        cluster_extension: cluster.extensions.get(EXTENSION).cloned(),
        interactive_mode: match exec.interactive_mode.as_str() {
            "Always" => InteractiveMode::Always,
            "Never" => InteractiveMode::Never,
            _ => InteractiveMode::IfAvailable,
        },
    }
}

fn pem(file: Option<PathBuf>, data: Option<Data>) -> Option<PemSource> {
    match data {
        Some(mut data) => Some(PemSource::Inline(std::mem::take(&mut data.0))),
        None => file.map(PemSource::File),
    }
}

fn impersonate(user: &AuthInfo) -> Option<Impersonate> {
    (!user.impersonate.is_empty()).then(|| Impersonate {
        user: user.impersonate.clone(),
        uid: Some(user.impersonate_uid.clone()).filter(|uid| !uid.is_empty()),
        groups: user.impersonate_groups.clone(),
        extra: user.impersonate_extra.clone(),
    })
}
