//! A disk of its own for one home: a file system in a file, whose power can be cut, and which can be frozen.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::subject::Subject;

/// Stops the file system where it is: `EXT4_IOC_SHUTDOWN` with `NOLOGFLUSH` (linux/fs/ext4/ext4.h).
const CUT: &str =
    "import fcntl,os,struct,sys; fcntl.ioctl(os.open(sys.argv[1],os.O_RDONLY),0x8004587d,struct.pack('I',2))";
/// Freezes it until the input ends, also because whoever holds its other end was killed.
const FREEZE: &str = "fsfreeze -f \"$1\" && echo frozen && { read -r _; fsfreeze -u \"$1\"; }";

/// Writes until nothing more can be written. Another file each time: one that is written anew gives its block back first.
const FILL: &str = "for again in 1 2 3 4 5 6 7 8 9; do
    dd if=/dev/zero of=\"$1/filler\" bs=1k oflag=append conv=notrunc 2> /dev/null
    echo more > \"$1/more.$again\" 2> /dev/null || exit 0
done; echo there is always room >&2; exit 1";

/// A file system in a file, mounted as the home.
pub(crate) struct Disk {
    image: PathBuf,
    home: PathBuf,
}

impl Disk {
    pub(crate) fn new(subject: &Subject) -> Result<Self, String> {
        let disk = Self { image: subject.folder.path().join("image"), home: subject.home() };
        std::fs::create_dir(&disk.home).map_err(|error| format!("cannot make the home: {error}"))?;
        let image = disk.image.display().to_string();
        shell("truncate -s 48M \"$1\" && mkfs.ext4 -q -F -O ^resize_inode \"$1\"", &[&image])?;
        disk.mount()?;
        shell("chmod 700 \"$1\"", &[&disk.home.display().to_string()])?;
        Ok(disk)
    }

    /// Only a sync, and no clock, writes anything to the disk.
    pub(crate) fn mount(&self) -> Result<(), String> {
        let (image, home) = (self.image.display().to_string(), self.home.display().to_string());
        shell("mount -o loop,commit=300,noatime \"$1\" \"$2\"", &[&image, &home])
    }

    pub(crate) fn unmount(&self) -> Result<(), String> {
        shell("umount \"$1\" 2>/dev/null || umount -l \"$1\"", &[&self.home.display().to_string()])
    }

    pub(crate) fn cut(&self) -> Result<(), String> {
        let status = Command::new("python3").args(["-c", CUT]).arg(&self.home).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("cannot cut the power: {other:?}")),
        }
    }

    /// Takes every block that is left, and those that a task gives back meanwhile.
    pub(crate) fn fill(&self) -> Result<(), String> {
        let home = self.home.display().to_string();
        shell(FILL, &[&home])
    }

    /// Gives them back.
    pub(crate) fn make_room(&self) -> Result<(), String> {
        let home = self.home.display().to_string();
        shell("rm -f \"$1/filler\" \"$1\"/more.*", &[&home])
    }

    /// From now on every write waits, whoever writes, until the answer is dropped.
    pub(crate) fn freeze(&self) -> Result<Frozen, String> {
        let mut command = Command::new("sh");
        command.args(["-c", FREEZE, "sh"]).arg(&self.home).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeping = command.spawn().map_err(|error| format!("cannot start a shell: {error}"))?;
        let mut said = String::new();
        if let Some(out) = keeping.stdout.take() {
            BufReader::new(out).read_line(&mut said).map_err(|error| format!("cannot read: {error}"))?;
        }
        let frozen = Frozen(keeping);
        if said == "frozen\n" { Ok(frozen) } else { Err("cannot freeze the file system".into()) }
    }
}

/// A frozen disk; it thaws when this is dropped.
pub(crate) struct Frozen(Child);

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.unmount();
    }
}

fn shell(script: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new("sh").args(["-c", script, "sh"]).args(args).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("`{script}`: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("`{script}`: {error}")),
    }
}
