#![expect(
    clippy::disallowed_methods,
    reason = "these tests set up and look at real files"
)]

use std::fs as disk;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use longshore_protocol::error::ErrorKind;

use super::*;
use crate::kernel::access::{Access, RealAccess};

fn fixed() -> Workspace {
    Workspace::open(WorkspaceOptions {
        cwd: "/ws".into(),
        additional_dirs: vec!["/more/".into()],
        home: Some("/home/u".into()),
        longshore_home: Some("/home/u/.longshore".into()),
        ..WorkspaceOptions::default()
    })
}

#[test]
fn lexical_step() {
    let workspace = fixed();
    let cases = [
        ("a/./b/../c", Ok(("/ws/a/c", true))),
        ("/ws/a", Ok(("/ws/a", true))),
        ("/ws-evil/a", Ok(("/ws-evil/a", false))),
        ("/more/x", Ok(("/more/x", true))),
        ("/etc/hosts", Ok(("/etc/hosts", false))),
        ("~/n.txt", Ok(("/home/u/n.txt", false))),
        ("~", Ok(("/home/u", false))),
        ("~bob/n", Ok(("/ws/~bob/n", true))),
        ("../../etc/passwd", Err(ErrorKind::PathOutsideWorkspace)),
        ("../more/x", Ok(("/more/x", true))),
        ("", Err(ErrorKind::PathInvalid)),
        ("a\0b", Err(ErrorKind::PathInvalid)),
        (".ENV.Local", Err(ErrorKind::PathSensitive)),
    ];
    for (written, expected) in cases {
        let got = workspace.resolve(written).map_err(|error| error.kind());
        let expected = expected.map(|(path, inside)| Lexical {
            path: path.into(),
            inside,
        });
        assert_eq!(got, expected, "{written:?}");
    }
    assert_eq!(
        Workspace::of_dir("/ws")
            .resolve("~/x")
            .map_err(|error| error.kind()),
        Err(ErrorKind::PathInvalid)
    );
    assert!(
        workspace.resolve_root(".aws/credentials").is_ok(),
        "a search root is not refused"
    );
}

#[test]
fn protected_names() {
    let workspace = fixed();
    let protected = [
        ".env",
        ".env.production",
        ".ENV.Local",
        "id_rsa",
        "ID_ED25519.OLD",
        "id_ecdsa-work",
        "id_ed25519_sk",
        "credentials",
        "credentials.pem",
        ".aws/credentials",
        ".aws/credentials/x",
        "deep/.gcp/credentials/y",
        ".netrc",
        "/home/u/.ssh/deploy",
        "/home/u/.gnupg/x/y",
        "/home/u/.config/gcloud/db",
        "/home/u/.longshore/credentials/p.json",
        "/home/u/.longshore/run/ws-token",
        "/home/u/.kube/config",
        "/home/u/.docker/config.json",
        "/home/u/.config/gh/hosts.yml",
        "/home/U/.SSH/Deploy",
        "id_dsa",
        "id_ecdsa_sk",
        ".pgpass",
        ".git-credentials",
        ".pypirc",
        "_netrc",
        // Spellings that some file system takes for the same.
        ".env.",
        ".env ",
        ".env::$DATA",
        "credentials. .",
        "deep/.AWS./Credentials",
        ".e\u{200D}nv",
        "credential\u{17F}",
        "ENV~1",
        "ID_ED2~1",
        "creden~2",
        "/proc/12/environ",
        "/proc/12/task/13/mem",
        "/proc/self/maps",
        "/proc/thread-self/status",
        "/proc/kcore",
    ];
    for path in protected {
        assert!(workspace.is_sensitive(&workspace.cwd.join(path)), "{path}");
    }
    let open = [
        ".env.example",
        ".env.SAMPLE",
        ".envrc",
        ".env_example",
        "environment.py",
        "credentials.json",
        "id_rsafoo",
        "id_rsa.pub",
        "server.key.example",
        ".env/lib/x.py",
        "/home/u/.ssh/config",
        "/home/u/.ssh/deploy.pub",
        "/home/u/.longshore/config.toml",
        "/home/u/.ssh/known_hosts",
        "/home/u/.ssh",
        "id_ed25519_sk.pub",
        "project/.ssh/fixture",
        "backup~1",
        "credentials~",
        "/proc/1/status",
    ];
    for path in open {
        assert!(!workspace.is_sensitive(&workspace.cwd.join(path)), "{path}");
    }
}

#[test]
fn the_user_adds_and_excepts() {
    let list = |globs: &[&str]| {
        globs
            .iter()
            .map(|&glob| glob.to_owned())
            .collect::<Vec<_>>()
    };
    let (files, bad) = SensitiveFiles::new(
        &list(&["*.SECRET", "/ws/private/**", "[", "~/vault/*"]),
        &list(&["/ws/test/.env"]),
        Some(Path::new("/home/u")),
    );
    assert_eq!(
        bad.iter().map(|bad| bad.glob.as_str()).collect::<Vec<_>>(),
        ["["]
    );
    for (path, expected) in [
        ("/ws/a.secret", true),
        ("/ws/private/a/b", true),
        ("/home/u/vault/x", true),
        ("/ws/test/.env", false),
        ("/ws/.env", true),
        ("/ws/x", false),
    ] {
        assert_eq!(files.covers(Path::new(path)), expected, "{path}");
    }
}

/// A directory with a workspace `ws` and a neighbour `out`.
fn on_disk() -> (tempfile::TempDir, PathBuf, Workspace) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for name in ["ws/d", "out", "extra"] {
        disk::create_dir_all(base.join(name)).unwrap();
    }
    for name in ["ws/f", "ws/.env", "out/secret.txt", "extra/e"] {
        disk::write(base.join(name), "x").unwrap();
    }
    let workspace = Workspace::open(WorkspaceOptions {
        cwd: base.join("ws"),
        additional_dirs: vec![base.join("extra")],
        ..WorkspaceOptions::default()
    });
    (dir, base, workspace)
}

fn real(workspace: &Workspace, access: Access) -> Result<RealAccess, ErrorKind> {
    match workspace.real_accesses_blocking(&[access]) {
        Ok(mut real) => Ok(real.remove(0)),
        Err(error) => Err(error.kind()),
    }
}

#[test]
fn links_are_judged_by_where_they_lead() {
    let (_dir, base, workspace) = on_disk();
    let ws = base.join("ws");
    symlink(base.join("out/secret.txt"), ws.join("link")).unwrap();
    symlink("../out", ws.join("up")).unwrap();
    symlink(".env", ws.join("ok.txt")).unwrap();
    symlink("f", ws.join("same")).unwrap();
    symlink("loop-b", ws.join("loop-a")).unwrap();
    symlink("loop-a", ws.join("loop-b")).unwrap();
    symlink("nowhere", ws.join("dangling")).unwrap();
    symlink(base.join("extra"), ws.join("to-extra")).unwrap();

    let check = |written: &str, expected: Result<(&str, bool, bool), ErrorKind>| {
        for access in [
            Access::read(ws.join(written)),
            Access::write(ws.join(written)),
        ] {
            let got = real(&workspace, access)
                .map(|real| (real.real, real.real_inside, real.crosses_link));
            let expected = expected.map(|(path, inside, link)| (base.join(path), inside, link));
            assert_eq!(got, expected, "{written}");
        }
    };
    check("f", Ok(("ws/f", true, false)));
    check("new/dir/file", Ok(("ws/new/dir/file", true, false)));
    check("link", Ok(("out/secret.txt", false, true)));
    check("up/new.txt", Ok(("out/new.txt", false, true)));
    check("same", Ok(("ws/f", true, true)));
    check("to-extra/e", Ok(("extra/e", true, true)));
    check("ok.txt", Err(ErrorKind::PathSensitive));
    check("loop-a", Err(ErrorKind::PathInvalid));
    check("dangling", Err(ErrorKind::PathInvalid));
    check("dangling/below", Err(ErrorKind::PathInvalid));

    let search = real(&workspace, Access::search(ws.join(".env"))).unwrap();
    assert!(search.sensitive, "a search root is marked, not refused");
}

#[test]
fn protected_places_are_known_by_their_real_paths_too() {
    let (_dir, base, _) = on_disk();
    symlink(base.join("out"), base.join("home")).unwrap();
    let workspace = Workspace::open(WorkspaceOptions {
        cwd: base.join("ws"),
        home: Some(base.join("home")),
        longshore_home: Some(base.join("home/.longshore")),
        ..WorkspaceOptions::default()
    });
    for dir in ["home", "out"] {
        for secret in [".ssh/deploy", ".gnupg/x", ".longshore/credentials/p"] {
            let path = base.join(dir).join(secret);
            assert!(workspace.is_sensitive(&path), "{}", path.display());
        }
        assert!(!workspace.is_sensitive(&base.join(dir).join("x")));
    }
}

#[test]
fn links_may_be_read_through_to_where_the_user_says() {
    let (_dir, base, _) = on_disk();
    let workspace = Workspace::open(WorkspaceOptions {
        cwd: base.join("ws"),
        trusted_link_targets: vec![base.join("out")],
        ..WorkspaceOptions::default()
    });
    symlink(base.join("out"), base.join("ws/shared")).unwrap();
    symlink(base.join("extra"), base.join("ws/elsewhere")).unwrap();
    for (access, real_inside) in [
        (Access::read(base.join("ws/shared/secret.txt")), true),
        (Access::search(base.join("ws/shared")), true),
        (Access::write(base.join("ws/shared/secret.txt")), false),
        (Access::read(base.join("ws/elsewhere/e")), false),
        (Access::read(base.join("out/secret.txt")), false),
    ] {
        let judged = real(&workspace, access.clone()).unwrap();
        assert_eq!(judged.real_inside, real_inside, "{access:?}");
    }
}

#[test]
fn a_root_that_is_gone_is_resolved_again() {
    let (_dir, base, _) = on_disk();
    symlink(base.join("out"), base.join("alias")).unwrap();
    let workspace = Workspace::of_dir(base.join("alias"));
    let judge = || {
        real(&workspace, Access::read(base.join("alias/e")))
            .unwrap()
            .real_inside
    };
    assert!(judge());
    // A link that is pointed elsewhere while its old target stays is a link that leads out.
    disk::remove_file(base.join("alias")).unwrap();
    symlink(base.join("extra"), base.join("alias")).unwrap();
    assert!(!judge());
    disk::remove_dir_all(base.join("out")).unwrap();
    assert!(judge());
}

#[test]
fn a_workspace_behind_a_link_is_inside_both_ways() {
    let (_dir, base, _) = on_disk();
    symlink(base.join("ws"), base.join("alias")).unwrap();
    let workspace = Workspace::of_dir(base.join("alias"));
    let through_alias = real(&workspace, Access::read(base.join("alias/f"))).unwrap();
    assert!(through_alias.inside && through_alias.real_inside);
    let direct = real(&workspace, Access::read(base.join("ws/f"))).unwrap();
    assert!(!direct.inside && direct.real_inside);
    assert_eq!(workspace.show(&base.join("ws/f")), "f");
    assert_eq!(workspace.show(&base.join("alias")), ".");
    assert_eq!(workspace.show(Path::new("/etc")), "/etc");
}

#[test]
fn control_directories_and_own_configuration_are_guarded() {
    let (_dir, base, workspace) = on_disk();
    let ws = base.join("ws");
    disk::create_dir_all(base.join("store/worktrees/w")).unwrap();
    disk::write(ws.join(".git"), "gitdir: ../store/worktrees/w\n").unwrap();
    disk::write(base.join("store/worktrees/w/commondir"), "../..\n").unwrap();
    let guarded = |access| real(&workspace, access).unwrap().guarded;
    for (path, read, write) in [
        ("ws/.git", true, true),
        ("ws/sub/.GIT/config", true, true),
        ("ws/sub/.g\u{200C}it/config", true, true),
        ("ws/sub/GIT~1/config", true, true),
        ("ws/sub/.git./config", true, true),
        ("store/hooks/pre-commit", true, true),
        ("store/worktrees/w/HEAD", true, true),
        ("ws/.longshore/config.toml", false, true),
        ("ws/.mcp.json", false, true),
        ("ws/f", false, false),
        ("ws/.gitignore", false, false),
    ] {
        assert_eq!(guarded(Access::read(base.join(path))), read, "read {path}");
        assert_eq!(
            guarded(Access::write(base.join(path))),
            write,
            "write {path}"
        );
    }
    assert!(workspace.in_work_tree());
    assert!(!in_work_tree(&base.join("out")));
    let home = Workspace::open(WorkspaceOptions {
        cwd: ws,
        longshore_home: Some(base.join("extra")),
        ..WorkspaceOptions::default()
    });
    assert!(
        real(&home, Access::write(base.join("extra/config.toml")))
            .unwrap()
            .guarded
    );
}

#[tokio::test]
async fn an_exclusive_call_needs_no_disk() {
    let workspace = Arc::new(fixed());
    assert_eq!(
        workspace.real_accesses(&[Access::All]).await,
        Ok(vec![RealAccess::all()])
    );
}
