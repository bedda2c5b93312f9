//! Validates a configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pintle_meta::__private::is_dns_label;
use pintle_meta::redacted_url;

use crate::data::Data;
use crate::error::{Error, Problem};
use crate::files::{open_regular, read_bounded};
use crate::types::{AuthInfo, ClusterInfo, Context, Exec, Kubeconfig};
use crate::yaml::Lines;

impl Kubeconfig {
    /// Validates all clusters, users and contexts of the configuration. Checks that the cluster and the user of each
    /// context exist. Checks that the certificate files can be opened.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Invalid`] with all problems of the configuration.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_kubeconfig::Kubeconfig;
    ///
    /// let kubeconfig = Kubeconfig::parse("contexts: [{name: blue, context: {cluster: eu, user: me}}]")?;
    /// let error = kubeconfig.validate().unwrap_err().to_string();
    /// assert!(error.contains("contexts[\"blue\"].cluster: cluster \"eu\" does not exist"));
    /// assert!(error.contains("contexts[\"blue\"].user: user \"me\" does not exist"));
    /// # Ok::<(), pintle_kubeconfig::Error>(())
    /// ```
    pub fn validate(&self) -> Result<(), Error> {
        let mut report = Report::default();
        if !self.current_context.is_empty() && !self.contexts.contains_key(&self.current_context) {
            report.file.clone_from(&self.origin);
            report.add("current-context", format!("context {:?} does not exist", self.current_context));
        }
        report.file = None;
        let nameless = [
            ("clusters", self.clusters.contains_key("")),
            ("contexts", self.contexts.contains_key("")),
            ("users", self.users.contains_key("")),
        ];
        for (list, _) in nameless.into_iter().filter(|(_, found)| *found) {
            report.add(list, "an entry has no name; set a name");
        }
        for (name, context) in &self.contexts {
            report.context(name, context, self);
        }
        for (name, cluster) in &self.clusters {
            report.cluster(name, cluster);
        }
        for (name, user) in &self.users {
            report.user(name, user);
        }
        report.finish()
    }

    /// Validates one context together with its cluster and user.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if the context does not exist. Returns [`Error::Invalid`] with all problems of the
    /// context, its cluster and its user.
    pub fn validate_context(&self, name: &str) -> Result<(), Error> {
        let context = self.contexts.get(name).ok_or_else(|| self.not_found("context", name))?;
        let mut report = Report::default();
        report.context(name, context, self);
        if let Some(cluster) = self.clusters.get(&context.cluster) {
            report.cluster(&context.cluster, cluster);
        }
        if let Some(user) = self.users.get(&context.user) {
            report.user(&context.user, user);
        }
        report.finish()
    }

    pub(crate) fn not_found(&self, kind: &'static str, name: &str) -> Error {
        let known = match kind {
            "context" => self.contexts.keys().cloned().collect(),
            "cluster" => self.clusters.keys().cloned().collect(),
            _ => self.users.keys().cloned().collect(),
        };
        Error::NotFound { kind, name: name.into(), known }
    }
}

#[derive(Default)]
pub(crate) struct Report {
    problems: Vec<Problem>,
    file: Option<PathBuf>,
}

impl Report {
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        if self.problems.is_empty() {
            return Ok(());
        }
        // Find line numbers only if there are problems, because this requires reading the files again.
        let mut files: BTreeMap<PathBuf, Option<Lines>> = BTreeMap::new();
        for problem in &mut self.problems {
            let Some(file) = &problem.file else { continue };
            // Read only regular files, because a pipe cannot be read a second time.
            let lines = || open_regular(file).and_then(|_| read_bounded(file)).ok().and_then(|text| Lines::of(&text));
            let lines = files.entry(file.clone()).or_insert_with(lines);
            problem.line = lines.as_ref().and_then(|lines| lines.find(&problem.field));
        }
        Err(Error::Invalid(self.problems))
    }

    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        let (field, message) = (field.into(), message.into());
        self.problems.push(Problem { file: self.file.clone(), line: None, field, message });
    }

    pub(crate) fn provider(&mut self, name: &str, origin: Option<PathBuf>, message: String) {
        self.file = origin;
        self.add(format!("users[{name:?}].auth-provider"), message);
    }

    fn context(&mut self, name: &str, context: &Context, config: &Kubeconfig) {
        self.file.clone_from(&context.origin);
        let member_path = |member: &str| format!("contexts[{name:?}].{member}");
        match context.cluster.as_str() {
            "" => self.add(member_path("cluster"), "it is empty; set it to the name of a cluster"),
            cluster if !config.clusters.contains_key(cluster) => {
                self.add(
                    member_path("cluster"),
                    format!("cluster {cluster:?} does not exist; add it or choose another one"),
                );
            }
            _ => {}
        }
        // A context without a user is valid, but the client then sends no credentials.
        let user = &context.user;
        if !user.is_empty() && !config.users.contains_key(user) {
            self.add(member_path("user"), format!("user {user:?} does not exist; add it or choose another one"));
        }
        if !context.namespace.is_empty() && !is_dns_label(&context.namespace) {
            let message =
                "a namespace has at most 63 lower-case letters, digits and hyphens, and no hyphen at its ends";
            self.add(member_path("namespace"), format!("{:?} is not a namespace: {message}", context.namespace));
        }
    }

    pub(crate) fn cluster(&mut self, name: &str, cluster: &ClusterInfo) {
        self.file.clone_from(&cluster.origin);
        let member_path = |member: &str| format!("clusters[{name:?}].{member}");
        if cluster.server.is_empty() {
            // For a cluster without a server, report only this problem.
            return self.add(member_path("server"), "it is empty; set it to the URL of the API server");
        }
        let has_ca = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
        if has_ca && !cluster.server.contains("://") {
            // Without a scheme, client-go uses http and silently drops the CA certificate and the credentials.
            self.add(
                member_path("server"),
                format!("{:?} has no scheme; write https://{0}", redacted_url(&cluster.server)),
            );
        }
        if has_ca && cluster.insecure_skip_tls_verify {
            let message = "it cannot be combined with a certificate authority; remove one of them";
            self.add(member_path("insecure-skip-tls-verify"), message);
        }
        self.pair(
            &member_path("certificate-authority"),
            &cluster.certificate_authority,
            &cluster.certificate_authority_data,
        );
        if !cluster.proxy_url.is_empty() && !is_proxy(&cluster.proxy_url) {
            let message = "a proxy is a URL with the scheme http, https or socks5, and a host";
            self.add(member_path("proxy-url"), message);
        }
    }

    /// Adds a problem if the server URL has no scheme and the user has credentials. Without a scheme, client-go uses
    /// http and silently drops the credentials.
    pub(crate) fn scheme(&mut self, name: &str, cluster: &ClusterInfo, user: &AuthInfo) {
        let has_authority = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
        if has_authority || cluster.server.is_empty() || cluster.server.contains("://") || !user.has_credentials() {
            return;
        }
        self.file.clone_from(&cluster.origin);
        let server = redacted_url(&cluster.server);
        let message =
            format!("{server:?} has no scheme, and credentials are sent over https only; write https://{server}");
        self.add(format!("clusters[{name:?}].server"), message);
    }

    pub(crate) fn user(&mut self, name: &str, user: &AuthInfo) {
        self.file.clone_from(&user.origin);
        let member_path = |member: &str| format!("users[{name:?}].{member}");
        let has_certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
        if has_certificate {
            self.pair(&member_path("client-certificate"), &user.client_certificate, &user.client_certificate_data);
            self.pair(&member_path("client-key"), &user.client_key, &user.client_key_data);
            if user.client_key.is_none() && user.client_key_data.is_none() {
                self.add(member_path("client-key"), "a certificate needs its key; set client-key or client-key-data");
            }
        }
        let has_token = user.token.is_some() || user.token_file.is_some();
        let has_basic = !user.username.is_empty() || user.password.is_some();
        if has_token && has_basic {
            self.add(member_path("token"), "token and username/password exclude each other; remove one of them");
        }
        if let Some(exec) = &user.exec {
            self.exec(&member_path("exec"), exec);
            if user.auth_provider.is_some() {
                self.add(
                    member_path("auth-provider"),
                    "exec and auth-provider exclude each other; remove auth-provider",
                );
            }
        }
        let more = !user.impersonate_uid.is_empty()
            || !user.impersonate_groups.is_empty()
            || !user.impersonate_extra.is_empty();
        if user.impersonate.is_empty() && more {
            self.add(
                member_path("as"),
                "as-uid, as-groups and as-user-extra require a user to impersonate; set \"as\"",
            );
        }
    }

    fn exec(&mut self, at: &str, exec: &Exec) {
        const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
        if exec.command.is_empty() {
            self.add(format!("{at}.command"), "it is empty; set it to the program to run");
        }
        if !VERSIONS.contains(&exec.api_version.as_str()) {
            let message = format!("{:?} is not supported; use {} or {}", exec.api_version, VERSIONS[0], VERSIONS[1]);
            self.add(format!("{at}.apiVersion"), message);
        }
        if exec.env.iter().any(|variable| variable.name.is_empty()) {
            self.add(format!("{at}.env"), "a variable has no name");
        }
        match exec.interactive_mode.as_str() {
            "Always" | "IfAvailable" | "Never" => {}
            // The interactive mode may be missing only in `v1beta1`.
            "" if exec.api_version == VERSIONS[1] => {}
            mode => {
                let message = format!("{mode:?} is not a mode; set Never, IfAvailable or Always");
                self.add(format!("{at}.interactiveMode"), message);
            }
        }
    }

    /// Checks that `file` and `data` are not both set, and that the file can be opened.
    fn pair(&mut self, field: &str, file: &Option<PathBuf>, data: &Option<Data>) {
        let Some(file) = file else { return };
        if data.is_some() {
            return self.add(field, format!("both {field} and {field}-data are set; remove one of them"));
        }
        if let Err(error) = open_regular(file) {
            self.add(field, format!("{} cannot be read: {error}", file.display()));
        }
    }
}

impl AuthInfo {
    fn has_credentials(&self) -> bool {
        let has_token = self.token.is_some() || self.token_file.is_some();
        let has_certificate = self.client_certificate.is_some() || self.client_certificate_data.is_some();
        let has_basic = !self.username.is_empty() || self.password.is_some();
        has_token || has_certificate || has_basic || self.exec.is_some() || self.auth_provider.is_some()
    }
}

fn is_proxy(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_known = ["http", "https", "socks5"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_known && !host.is_empty() && !host.starts_with(':')
}
