//! Methods that return changed copies of a configuration: minified, flattened, redacted or shortened.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pintle_meta::{Secret, redacted_url};
use serde_json::Value;

use crate::data::Data;
use crate::error::Error;
use crate::files::open_regular;
use crate::types::Kubeconfig;
use crate::yaml;

const REDACTED: &str = "REDACTED";
const OMITTED: &str = "DATA+OMITTED";

impl Kubeconfig {
    /// Returns a copy that contains only the current context with its cluster and user.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NoContext`] if the configuration has no current context. Returns [`Error::NotFound`] if the
    /// current context does not exist.
    pub fn minified(&self) -> Result<Self, Error> {
        let name = &self.current_context;
        if name.is_empty() {
            return Err(Error::NoContext { known: self.contexts.keys().cloned().collect() });
        }
        let context = self.contexts.get(name).ok_or_else(|| self.not_found("context", name))?;
        let mut minified = self.clone();
        minified.contexts.retain(|other, _| other == name);
        minified.clusters.retain(|cluster, _| *cluster == context.cluster);
        minified.users.retain(|user, _| *user == context.user);
        Ok(minified)
    }

    /// Returns a copy with the contents of certificate and key files instead of their paths, for use on another
    /// machine. The copy keeps the paths of token files, because their contents change over time.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Read`] if a certificate or key file cannot be read.
    pub fn flattened(&self) -> Result<Self, Error> {
        let mut flat = self.clone();
        for cluster in flat.clusters.values_mut() {
            inline(&mut cluster.certificate_authority, &mut cluster.certificate_authority_data)?;
        }
        for user in flat.users.values_mut() {
            inline(&mut user.client_certificate, &mut user.client_certificate_data)?;
            inline(&mut user.client_key, &mut user.client_key_data)?;
        }
        Ok(flat)
    }

    /// Returns a copy without secrets, which is safe to print. The copy contains no tokens, passwords or keys. URLs in
    /// the copy contain no user names or passwords. The copy also omits the arguments and environment variables of
    /// credential plugins, and the values of extensions and unknown fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_kubeconfig::Kubeconfig;
    ///
    /// let kubeconfig = Kubeconfig::parse("users: [{name: me, user: {token: hush}}]")?;
    /// assert!(!kubeconfig.redacted().to_yaml()?.contains("hush"));
    /// # Ok::<(), pintle_kubeconfig::Error>(())
    /// ```
    pub fn redacted(&self) -> Self {
        let mut shown = self.clone();
        let hide = |secret: &mut Option<Secret>| {
            if secret.is_some() {
                *secret = Some(Secret::new(REDACTED));
            }
        };
        redact_values(shown.extensions.values_mut().chain(shown.other.values_mut()));
        for cluster in shown.clusters.values_mut() {
            cluster.server = redacted_url(&cluster.server);
            cluster.proxy_url = redacted_url(&cluster.proxy_url);
            redact_values(cluster.extensions.values_mut().chain(cluster.other.values_mut()));
        }
        for context in shown.contexts.values_mut() {
            redact_values(context.extensions.values_mut().chain(context.other.values_mut()));
        }
        for user in shown.users.values_mut() {
            redact_values(user.extensions.values_mut().chain(user.other.values_mut()));
            hide(&mut user.token);
            hide(&mut user.password);
            if user.client_key_data.is_some() {
                user.client_key_data = Some(Data(REDACTED.into()));
            }
            if let Some(provider) = &mut user.auth_provider {
                provider.config.values_mut().for_each(|value| *value = Secret::new(REDACTED));
            }
            if let Some(exec) = &mut user.exec {
                redact_values(exec.other.values_mut());
                exec.args.iter_mut().for_each(|argument| *argument = REDACTED.into());
                exec.env.iter_mut().for_each(|variable| hide(&mut variable.value));
            }
        }
        shown
    }

    /// Returns a [`redacted`](Self::redacted) copy that also omits certificates, as `kubectl config view` does.
    pub fn shortened(&self) -> Self {
        let mut short = self.redacted();
        let omit = |data: &mut Option<Data>| {
            if data.is_some() {
                *data = Some(Data(OMITTED.into()));
            }
        };
        short.clusters.values_mut().for_each(|cluster| omit(&mut cluster.certificate_authority_data));
        for user in short.users.values_mut() {
            omit(&mut user.client_certificate_data);
            omit(&mut user.client_key_data);
        }
        short
    }
}

fn redact_values<'a>(values: impl Iterator<Item = &'a mut Value>) {
    values.for_each(|value| *value = REDACTED.into());
}

fn inline(file: &mut Option<PathBuf>, data: &mut Option<Data>) -> Result<(), Error> {
    let Some(path) = file.take() else { return Ok(()) };
    if data.is_none() {
        *data = Some(read(&path).map_err(|cause| Error::Read { path, cause })?);
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<Data> {
    let file = open_regular(path)?;
    let size = file.metadata()?.len();
    if size > yaml::MAX_SIZE as u64 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is larger than {} bytes", yaml::MAX_SIZE)));
    }
    // Reserve the full capacity, because a vector that grows would leave copies of the secrets in memory.
    let mut data = Data(Vec::with_capacity(size as usize + 1));
    file.take(yaml::MAX_SIZE as u64).read_to_end(&mut data.0)?;
    Ok(data)
}
