//! Starts a build in the background, does something else, and is told when it ends.
//!
//! `cargo run -p ringback-host --example wait_for_build -- cargo build` (with `ringback` on the PATH, which becomes the
//! daemon where none runs yet).

use std::env;
use std::error::Error;
use std::os::unix::ffi::OsStringExt as _;

use ringback_host::client::{Capture, Client};
use ringback_host::home::Home;
use ringback_host::wire::{ByteBuf, Caller, Command, Reply, Request, Until};

fn main() -> Result<(), Box<dyn Error>> {
    let mut argv: Vec<ByteBuf> = env::args_os().skip(1).map(|word| ByteBuf::from(word.into_vec())).collect();
    if argv.is_empty() {
        argv = vec![ByteBuf::from(*b"true")];
    }
    let caller = Caller { session: "example".to_owned(), by: "example".to_owned() };
    let mut client = Client::open(&Home::find()?, caller)?;

    // Environment, folder, umask, nice and limits are ours, as they are now.
    let run = Capture::default().request(Command::Argv(argv))?;
    let Reply::Task { task, .. } = client.call(Request::Run(Box::new(run)))? else { return Err("no task".into()) };
    println!("{} runs; this program could go away now, and nothing would be lost", task.id);

    // The inbox tells every ending of the session once, whoever was looking when it happened.
    loop {
        let inbox = Request::Inbox { after: None, wait_ms: None, limit: 100 };
        let wait = Request::Wait { ids: vec![task.id.clone()], any: false, timeout_ms: None, until: Until::End };
        client.call(wait)?;
        let Reply::Notices { notices, .. } = client.call(inbox)? else { return Err("no notices".into()) };
        let Some(notice) = notices.iter().find(|notice| notice.task.id == task.id) else { continue };
        println!("{}", notice.text);
        client.call(Request::Ack { up_to: None, seqs: vec![notice.seq], tasks: Vec::new(), endings: Vec::new() })?;
        return Ok(());
    }
}
