//! `ringback daemon deliver`: hands one notice to a socket or a web address, for the daemon, which never waits for others.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::explain::{Done, Failure};

/// One delivery, as the daemon writes it to stdin.
#[derive(Deserialize)]
struct Job {
    /// A socket.
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
    #[cfg_attr(not(feature = "webhook"), expect(dead_code, reason = "this build speaks to no web address"))]
    timeout_ms: Option<u64>,
}

/// Delivers what stdin says. The daemon sees the exit code, and tries again.
pub(super) fn perform() -> Done {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    let job: Job =
        serde_json::from_str(&text).map_err(|error| failed(&format!("cannot read the delivery: {error}")))?;
    match &job.unix {
        Some(path) => {
            let line = format!("{}\n", job.body);
            let sent = UnixStream::connect(path).and_then(|mut socket| socket.write_all(line.as_bytes()));
            sent.map_err(|error| failed(&format!("cannot write to {}: {error}", path.display())))?;
            Ok(0)
        }
        None => web::post(&job),
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

    use std::time::Duration;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hmac::{Hmac, Mac as _};
    use sha2::Sha256;

    use super::{Done, Failure, Job, failed};
    use crate::cli::door;

    /// What stands before a secret that is written in base64.
    const SECRET_PREFIX: &str = "whsec_";

    pub(super) fn post(job: &Job) -> Done {
        let url = job.webhook.as_deref().ok_or_else(|| failed("nowhere to deliver to"))?;
        let body = job.body.to_string();
        let seconds = door::now().as_second().to_string();
        let timeout = job.timeout_ms.map(Duration::from_millis);
        // Somebody who answers with another address may be anybody.
        let config = ureq::Agent::config_builder().timeout_global(timeout).max_redirects(0).http_status_as_error(false);
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
