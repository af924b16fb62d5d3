//! `ringback daemon deliver`: hands one notice to a program, a socket or a web address, for the daemon, which never waits for
//! others. It keeps the time itself, so that nothing hangs for ever where the daemon was killed meanwhile.

use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ringback_sys::files;
use ringback_sys::pidfd::PidFd;
use ringback_sys::signals;
use ringback_sys::watch::{For, poll};
use serde::Deserialize;
use serde_json::Value;

use crate::explain::{Done, EXIT_FAILED, Failure};

/// One delivery, as the daemon writes it to stdin.
#[derive(Deserialize)]
struct Job {
    /// A program and its arguments.
    exec: Option<Vec<String>>,
    /// Or a socket.
    unix: Option<PathBuf>,
    /// Or an address.
    #[cfg_attr(not(feature = "webhook"), expect(dead_code, reason = "this build speaks to no web address"))]
    webhook: Option<String>,
    #[cfg_attr(not(feature = "webhook"), expect(dead_code, reason = "this build speaks to no web address"))]
    secret: Option<String>,
    #[cfg_attr(not(feature = "webhook"), expect(dead_code, reason = "this build speaks to no web address"))]
    id: String,
    /// What is delivered.
    body: Value,
    /// How long it may take.
    timeout_ms: Option<u64>,
}

impl Job {
    fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

/// Delivers what stdin says. The daemon sees the exit code, and tries again.
pub(super) fn perform() -> Done {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    let job: Job =
        serde_json::from_str(&text).map_err(|error| failed(&format!("cannot read the delivery: {error}")))?;
    match (&job.exec, &job.unix) {
        (Some(words), _) => give(words, &job),
        (None, Some(path)) => {
            let line = format!("{}\n", job.body);
            let sent = UnixStream::connect(path).and_then(|mut socket| {
                socket.set_write_timeout(job.timeout())?;
                socket.write_all(line.as_bytes())
            });
            sent.map_err(|error| failed(&format!("cannot write to {}: {error}", path.display())))?;
            Ok(0)
        }
        (None, None) => web::post(&job),
    }
}

/// Gives it to a program, whose exit code is ours. One that takes too long is killed with what it has started in its group.
fn give(words: &[String], job: &Job) -> Done {
    let (program, arguments) = words.split_first().ok_or_else(|| failed("no program to deliver to"))?;
    let mut line = files::memory("notice")?;
    line.write_all(format!("{}\n", job.body).as_bytes())?;
    line.rewind()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(line).stdout(Stdio::null()).process_group(0);
    let mut child = command.spawn().map_err(|error| failed(&format!("cannot start {program}: {error}")))?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let ended = PidFd::open_child(pid)?;
    if poll(&[(ended.as_fd(), For::Read)], job.timeout())? != [true] {
        PidFd::kill_group_of_child(pid)?;
        child.wait()?;
        return Err(failed("it took too long"));
    }
    let status = child.wait()?;
    match status.code() {
        Some(code) => Ok(u8::try_from(code).unwrap_or(EXIT_FAILED)),
        None => Err(failed(&format!("it was ended by {}", signals::name(status.signal().unwrap_or_default())))),
    }
}

fn failed(message: &str) -> Failure {
    Failure::new("deliver", message, None)
}

#[cfg(not(feature = "webhook"))]
mod web {
    //! A build without webhooks.

    use super::{Done, Job, failed};

    pub(super) fn post(_: &Job) -> Done {
        Err(failed("this ringback was built without the feature `webhook`"))
    }
}

#[cfg(feature = "webhook")]
mod web {
    //! Posting, signed as Standard Webhooks says (standardwebhooks.com).

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hmac::{Hmac, KeyInit as _, Mac as _};
    use sha2::Sha256;

    use super::{Done, Failure, Job, failed};
    use crate::cli::door;

    /// What stands before a secret that is written in base64.
    const SECRET_PREFIX: &str = "whsec_";

    pub(super) fn post(job: &Job) -> Done {
        let url = job.webhook.as_deref().ok_or_else(|| failed("nowhere to deliver to"))?;
        let body = job.body.to_string();
        let seconds = door::now().as_second().to_string();
        // Somebody who answers with another address may be anybody.
        let config =
            ureq::Agent::config_builder().timeout_global(job.timeout()).max_redirects(0).http_status_as_error(false);
        let mut request = ureq::Agent::new_with_config(config.build())
            .post(url)
            .header("content-type", "application/json")
            .header("user-agent", concat!("ringback/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &job.id)
            .header("webhook-timestamp", &seconds);
        if let Some(secret) = &job.secret {
            request = request.header("webhook-signature", signature(secret, &job.id, &seconds, &body)?);
        }
        let answer =
            request.send(body.as_bytes()).map_err(|error| failed(&format!("cannot post to {url}: {error}")))?;
        if answer.status().is_success() { Ok(0) } else { Err(failed(&format!("{url} answered {}", answer.status()))) }
    }

    /// `v1,` and the HMAC of id, time and body.
    fn signature(secret: &str, id: &str, seconds: &str, body: &str) -> Result<String, Failure> {
        let key = match secret.strip_prefix(SECRET_PREFIX) {
            Some(encoded) => {
                STANDARD.decode(encoded).map_err(|_| failed("the secret is not base64 behind `whsec_`"))?
            }
            None => secret.as_bytes().to_vec(),
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|_| failed("the secret cannot be used"))?;
        mac.update(format!("{id}.{seconds}.{body}").as_bytes());
        Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_signature_is_that_of_the_specification() {
            // The example of the reference libraries of Standard Webhooks.
            let signed = signature(
                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                "1614265330",
                "{\"test\": 2432232314}",
            );
            assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
            assert!(signature("whsec_?", "", "", "").is_err());
        }
    }
}
