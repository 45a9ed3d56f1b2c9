//! Random forests of real links on the disk; the system itself says what each path leads to.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs as disk;
use std::io::Read;
use std::os::unix::fs::symlink;

use longshore_protocol::error::ErrorKind;

use super::*;
use crate::kernel::access::{Access, RealAccess};
use crate::os::fs::{Durability, FileKind, ReplaceOptions, Spot, atomic_replace, open_real};

const FORESTS: u64 = 120;
const THINGS: u64 = 16;
const QUERIES: u64 = 40;
const NAMES: [&str; 6] = ["a", "b", "c", "d", ".env", "id_rsa"];
/// The workspace, a directory added to it, one that links may lead to, and one that is nobody's.
const TREES: [&str; 4] = ["ws", "more", "trusted", "out"];

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    /// One to four components, now and then with a step up among them.
    fn relative(&mut self, ups: bool) -> PathBuf {
        let n = 1 + self.below(4);
        let step = |random: &mut Self| {
            if ups && random.below(4) == 0 {
                ".."
            } else {
                random.pick(&NAMES)
            }
        };
        (0..n).map(|_| step(self)).collect()
    }
}

struct Forest {
    _temp: tempfile::TempDir,
    base: PathBuf,
    workspace: Workspace,
}

impl Forest {
    fn grow(random: &mut Random) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let mut dirs: Vec<PathBuf> = TREES.iter().map(|tree| base.join(tree)).collect();
        for dir in &dirs {
            disk::create_dir(dir).unwrap();
        }
        for _ in 0..THINGS {
            let parent = dirs[random.below(dirs.len() as u64) as usize].clone();
            let path = parent.join(random.pick(&NAMES));
            if disk::symlink_metadata(&path).is_ok() {
                continue;
            }
            match random.below(4) {
                0 => {
                    disk::create_dir(&path).unwrap();
                    dirs.push(path);
                }
                1 => disk::write(&path, path.to_str().unwrap()).unwrap(),
                2 => symlink(random.relative(true), &path).unwrap(),
                _ => {
                    let target = base.join(random.pick(&TREES));
                    let target = if random.below(3) == 0 {
                        target
                    } else {
                        target.join(random.relative(true))
                    };
                    symlink(target, &path).unwrap();
                }
            }
        }
        let workspace = Workspace::open(WorkspaceOptions {
            cwd: base.join("ws"),
            additional_dirs: vec![base.join("more")],
            trusted_link_targets: vec![base.join("trusted")],
            ..WorkspaceOptions::default()
        });
        Self {
            _temp: temp,
            base,
            workspace,
        }
    }

    fn is_in(&self, path: &Path, trees: &[&str]) -> bool {
        trees
            .iter()
            .any(|tree| path.starts_with(self.base.join(tree)))
    }

    fn judge(&self, access: Access) -> Result<RealAccess, ErrorKind> {
        let judged = self.workspace.real_accesses_blocking(&[access]);
        judged
            .map(|mut accesses| accesses.remove(0))
            .map_err(|error| error.kind())
    }

    /// A path that leads somewhere is judged by that place, and opens that place and no other.
    fn check_there(&self, path: &Path, real: &Path) {
        let is_secret = has_secret_name(path) || has_secret_name(real);
        for access in [Access::read(path), Access::write(path)] {
            let writes = access.writes();
            let judged = match self.judge(access) {
                Err(kind) => {
                    assert_eq!(
                        (kind, is_secret),
                        (ErrorKind::PathSensitive, true),
                        "{}",
                        path.display()
                    );
                    continue;
                }
                Ok(judged) => judged,
            };
            assert!(!is_secret, "{}", path.display());
            let inside = self.is_in(path, &["ws", "more"]);
            let real_inside = self.is_in(real, &["ws", "more"])
                || (!writes && inside && self.is_in(real, &["trusted"]));
            assert_eq!(
                (
                    judged.real.as_path(),
                    judged.inside,
                    judged.real_inside,
                    judged.crosses_link
                ),
                (real, inside, real_inside, path != real),
                "{} writes {writes}",
                path.display()
            );
            match open_real(&judged.real) {
                Ok((mut file, _)) => {
                    let mut text = String::new();
                    file.read_to_string(&mut text).unwrap();
                    assert_eq!(Path::new(&text), real);
                }
                Err(error) => assert_eq!(error.not_regular(), Some(FileKind::Dir), "{error}"),
            }
        }
    }

    /// A path that leads nowhere opens nothing; what is made for it stands where it was judged to stand.
    fn check_not_there(&self, path: &Path) {
        let Ok(judged) = self.judge(Access::write(path)) else {
            return;
        };
        let error = open_real(&judged.real).unwrap_err();
        assert!(!error.met_link(), "{error}");
        let parts = [judged.real.to_str().unwrap().as_bytes()];
        let Ok((spot, _)) = Spot::real_making_dirs(&judged.real) else {
            // Something that is no directory stands in the way.
            return;
        };
        let options = ReplaceOptions {
            durability: Durability::Kernel,
            ..ReplaceOptions::default()
        };
        atomic_replace(&spot, &parts, &options).unwrap();
        assert_eq!(
            path.canonicalize().unwrap(),
            judged.real,
            "{}",
            path.display()
        );
        assert_eq!(
            judged.real_inside,
            self.is_in(&judged.real, &["ws", "more"])
        );
    }
}

fn has_secret_name(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name == ".env" || name == "id_rsa")
}

#[test]
fn every_path_is_judged_by_what_the_system_says_it_leads_to() {
    let (mut n_there, mut n_not, mut n_loops) = (0, 0, 0);
    for seed in 1..=FORESTS {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let forest = Forest::grow(&mut random);
        for query in 0..QUERIES {
            let tree = forest.base.join(random.pick(&TREES));
            let path = tree.join(random.relative(false));
            match path.canonicalize() {
                Ok(real) => {
                    n_there += 1;
                    forest.check_there(&path, &real);
                }
                Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                    n_loops += 1;
                    let got = forest.judge(Access::read(&path));
                    assert_eq!(
                        got.map_err(|kind| kind == ErrorKind::PathInvalid).err(),
                        Some(true),
                        "seed {seed}, query {query}: {}",
                        path.display()
                    );
                }
                Err(_) => {
                    n_not += 1;
                    forest.check_not_there(&path);
                }
            }
        }
    }
    // The forests are such that each case comes up often.
    assert!(
        n_there > 500 && n_not > 500 && n_loops > 20,
        "{n_there} {n_not} {n_loops}"
    );
}
