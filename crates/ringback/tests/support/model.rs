//! What each fixture command prints, how it ends and what it leaves behind: the oracle of the tests, in one place.
//!
//! Sleeps are long on purpose: nothing here ends by itself while a test looks, so an ending that comes was caused.

/// A command and what is true of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// A word for messages.
    pub(crate) name: &'static str,
    /// The words of its shell.
    pub(crate) shell: &'static str,
    /// The script.
    pub(crate) script: &'static str,
    /// What its output starts with, or is, when nothing noisy stays behind.
    pub(crate) prints: &'static str,
    /// The exit code of its main process.
    pub(crate) code: i64,
    /// At least so many processes outlive the main process.
    pub(crate) leaves: usize,
    /// Whether what stays behind goes on writing.
    pub(crate) noisy: bool,
}

const QUIET: Model = Model { name: "", shell: "sh", script: "", prints: "", code: 0, leaves: 1, noisy: false };

/// Commands whose main process ends while a grandchild holds stdout, stderr or both.
pub(crate) const HELD_PIPES: &[Model] = &[
    Model { name: "background", script: "sleep 7301 & echo hi", prints: "hi\n", ..QUIET },
    Model {
        name: "printed before",
        script: "echo important result; sleep 7302 &",
        prints: "important result\n",
        ..QUIET
    },
    Model { name: "explicit exit", script: "sleep 7303 & exit 5", code: 5, ..QUIET },
    Model {
        name: "nohup, redirected and not",
        script: "nohup sleep 7304 > /dev/null 2>&1 < /dev/null & echo done1; nohup sleep 7305 & echo done2",
        prints: "done1\ndone2\n",
        leaves: 2,
        ..QUIET
    },
    Model { name: "background pipeline", script: "nohup sleep 7306 | cat &", leaves: 2, ..QUIET },
    Model { name: "setsid", script: "setsid sleep 7307 & echo hi", prints: "hi\n", ..QUIET },
    Model {
        name: "setsid and double fork",
        script: "(setsid -f sleep 7308 &); echo hi; exit 4",
        prints: "hi\n",
        code: 4,
        ..QUIET
    },
    Model { name: "only stderr is held", script: "sleep 7309 > /dev/null & echo hi", prints: "hi\n", ..QUIET },
    Model {
        name: "process substitution",
        shell: "bash",
        script: "read -r x < <(echo hi; sleep 7310); echo $x",
        prints: "hi\n",
        ..QUIET
    },
    Model {
        name: "a daemon in the profile",
        script: "export HOME=$PWD/profile; mkdir -p $HOME; echo 'sleep 7311 &' > $HOME/.bash_profile; bash -lc 'echo fast'",
        prints: "fast\n",
        ..QUIET
    },
    Model {
        name: "GNU timeout and a helper of its own",
        script: "timeout 0.2 sh -c 'setsid sleep 7312 & sleep 7313'; echo rc=$?",
        prints: "rc=124\n",
        ..QUIET
    },
    Model {
        name: "a noisy child",
        script: "(while :; do echo noise; sleep 0.05; done) & sleep 0.2; echo front",
        prints: "noise\n",
        noisy: true,
        ..QUIET
    },
];

/// Commands that a stop finds hard. Each writes a line to `$READY` when its tree stands.
pub(crate) const STUBBORN: &[Model] = &[
    Model { name: "plain", script: "echo up > $READY; sleep 7401; exit 0", ..QUIET },
    Model {
        name: "four levels",
        script: "sh -c 'sh -c \"sh -c \\\"sleep 7402 & echo up > \\$READY; sleep 7403; true\\\"; true\"; true'; true",
        ..QUIET
    },
    Model {
        name: "GNU timeout makes its own group",
        script: "timeout 500 sh -c 'sleep 7404 & echo up > $READY; sleep 7405; true'; true",
        ..QUIET
    },
    Model {
        name: "job control gives each job a group",
        shell: "bash",
        script: "set -m; sleep 7406 & sleep 7407 | cat & echo up > $READY; wait",
        ..QUIET
    },
    Model {
        name: "setsid and double fork",
        script: "(setsid sh -c 'setsid sleep 7408 & (sleep 7409 &) ; echo up > $READY; sleep 7410; true' &); sleep 7411; true",
        ..QUIET
    },
    Model {
        name: "every leader has gone",
        script: "setsid -f sleep 7412; setsid sh -c 'sleep 7413 & sleep 7414 & echo up > $READY; wait' & exit 0",
        ..QUIET
    },
    Model {
        name: "an obedient leader with a child that ignores TERM",
        script: "sh -c 'trap \"\" TERM; echo up > $READY; while :; do sleep 7415; done' & trap 'exit 0' TERM; wait",
        ..QUIET
    },
    Model {
        name: "all ignore TERM, INT and HUP",
        script: "trap '' TERM INT HUP; sh -c 'echo up > $READY; while :; do sleep 7416; done'; true",
        ..QUIET
    },
    Model { name: "stopped by SIGSTOP", script: "sleep 7417 & echo up > $READY; kill -STOP $! $$; wait", ..QUIET },
    Model {
        name: "a middle layer that dies late",
        shell: "bash",
        script: "bash -c 'trap \"sleep 0.3; kill -TERM \\$C; wait; exit 0\" TERM; sleep 7418 & C=$!; echo up > $READY; wait'; true",
        ..QUIET
    },
    Model {
        name: "a zombie of a parent that never waits",
        shell: "bash",
        script: "sleep 0.05 & exec perl -e 'open F, \">\", $ENV{READY}; print F \"up\\n\"; close F; sleep 7419'",
        ..QUIET
    },
    Model {
        name: "a name with spaces and a bracket",
        script: "perl -e '$0 = \"a) b (c\"; open F, \">\", $ENV{READY}; print F \"up\\n\"; close F; sleep 7420' & wait",
        ..QUIET
    },
    Model {
        name: "a fork loop",
        // The count is a net under the test, not a part of the story: a stop comes long before it.
        script: "echo up > $READY; n=0; while [ $n -lt 4000 ]; do n=$((n+1)); (sleep 7421 &); done; sleep 7422",
        ..QUIET
    },
    Model {
        name: "100 that start each other again",
        script: "cat > respawn.sh <<'END'
if [ \"$1\" = watch ]; then
  while kill -0 $2 2>/dev/null; do sleep 0.2; done
  exec setsid sh respawn.sh
fi
while :; do setsid sh respawn.sh watch $$ & wait $!; done
END
n=0; while [ $n -lt 50 ]; do n=$((n+1)); (setsid sh respawn.sh &); done
echo up > $READY; sleep 7423",
        ..QUIET
    },
];

/// Commands that a shell cannot simply `exec`, from the matrix on which naive timeouts fail.
pub(crate) const SLEEPY_SHAPES: &[&str] =
    &["sleep 7501", "sleep 7502; true", "sleep 7503 & wait", "(sleep 7504)", "sleep 7505 | cat"];
