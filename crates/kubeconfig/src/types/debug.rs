//! `Debug` implementations that show no secrets. The output contains only the names of unknown fields and extensions,
//! because their values can be secrets. For example, the secret field `token` may be misspelled as `tokn`.

use std::fmt;

use pintle_meta::{debug_fields, debug_struct, redacted_url};

use super::{AuthInfo, ClusterInfo, Context, Exec, Kubeconfig};

fn names<'a, V: 'a>(fields: impl IntoIterator<Item = (&'a String, &'a V), IntoIter: Clone>) -> impl fmt::Debug {
    Names(fields.into_iter().map(|(name, _)| name))
}

struct Names<I>(I);

impl<'a, I: Iterator<Item = &'a String> + Clone> fmt::Debug for Names<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.clone()).finish()
    }
}

debug_fields!(Kubeconfig {
    api_version, kind, clusters, contexts, current_context, users, extensions => names, other => names, origin,
});

debug_fields!(ClusterInfo {
    server => redacted_url, tls_server_name, insecure_skip_tls_verify, certificate_authority,
    certificate_authority_data, proxy_url => redacted_url, disable_compression,
    extensions => names, other => names, origin,
});

debug_fields!(AuthInfo {
    client_certificate, client_certificate_data, client_key, client_key_data, token, token_file, impersonate,
    impersonate_uid, impersonate_groups, impersonate_extra, username, password, auth_provider, exec,
    extensions => names, other => names, origin,
});

debug_fields!(Context {
    cluster, user, namespace, extensions => names, other => names, origin,
});

// Print only the number of arguments and the names of the environment variables, because their values can be secrets.
debug_struct!(Exec |self| {
    api_version, command,
    args = format_args!("[{} redacted]", self.args.len()),
    env = Names(self.env.iter().map(|variable| &variable.name)),
    interactive_mode, ..
});
