//! `Debug` implementations without secrets. An unknown field can contain a secret, such as a misspelt `tokn`. The data
//! of other programs can also contain secrets. For unknown fields and the data of other programs, `Debug` shows only
//! the names.

use std::fmt;

use pintle_meta::redacted_url;

use super::{AuthInfo, ClusterInfo, Context, Exec, Kubeconfig};

/// Shows only the names of fields and not their values.
struct Names<I>(I);

impl<'a, I: Iterator<Item = &'a String> + Clone> fmt::Debug for Names<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.clone()).finish()
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_version, kind, clusters, contexts, current_context, users, extensions, other, origin } = self;
        f.debug_struct("Kubeconfig")
            .field("api_version", api_version)
            .field("kind", kind)
            .field("clusters", clusters)
            .field("contexts", contexts)
            .field("current_context", current_context)
            .field("users", users)
            .field("extensions", &Names(extensions.keys()))
            .field("other", &Names(other.keys()))
            .field("origin", origin)
            .finish()
    }
}

impl fmt::Debug for ClusterInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, tls_server_name, insecure_skip_tls_verify, certificate_authority, .. } = self;
        let Self { certificate_authority_data, proxy_url, disable_compression, extensions, other, origin, .. } = self;
        f.debug_struct("ClusterInfo")
            .field("server", &redacted_url(server))
            .field("tls_server_name", tls_server_name)
            .field("insecure_skip_tls_verify", insecure_skip_tls_verify)
            .field("certificate_authority", certificate_authority)
            .field("certificate_authority_data", certificate_authority_data)
            .field("proxy_url", &redacted_url(proxy_url))
            .field("disable_compression", disable_compression)
            .field("extensions", &Names(extensions.keys()))
            .field("other", &Names(other.keys()))
            .field("origin", origin)
            .finish()
    }
}

impl fmt::Debug for AuthInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client_certificate, client_certificate_data, client_key, client_key_data, token, .. } = self;
        let Self { token_file, impersonate, impersonate_uid, impersonate_groups, impersonate_extra, .. } = self;
        let Self { username, password, auth_provider, exec, extensions, other, origin, .. } = self;
        f.debug_struct("AuthInfo")
            .field("client_certificate", client_certificate)
            .field("client_certificate_data", client_certificate_data)
            .field("client_key", client_key)
            .field("client_key_data", client_key_data)
            .field("token", token)
            .field("token_file", token_file)
            .field("impersonate", impersonate)
            .field("impersonate_uid", impersonate_uid)
            .field("impersonate_groups", impersonate_groups)
            .field("impersonate_extra", impersonate_extra)
            .field("username", username)
            .field("password", password)
            .field("auth_provider", auth_provider)
            .field("exec", exec)
            .field("extensions", &Names(extensions.keys()))
            .field("other", &Names(other.keys()))
            .field("origin", origin)
            .finish()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, user, namespace, extensions, other, origin } = self;
        f.debug_struct("Context")
            .field("cluster", cluster)
            .field("user", user)
            .field("namespace", namespace)
            .field("extensions", &Names(extensions.keys()))
            .field("other", &Names(other.keys()))
            .field("origin", origin)
            .finish()
    }
}

impl fmt::Debug for Exec {
    /// Shows only the number of arguments and the names of the environment variables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exec")
            .field("api_version", &self.api_version)
            .field("command", &self.command)
            .field("args", &format_args!("[{} redacted]", self.args.len()))
            .field("env", &Names(self.env.iter().map(|variable| &variable.name)))
            .field("interactive_mode", &self.interactive_mode)
            .finish_non_exhaustive()
    }
}
