//! Keys and variables that are longshore's own but have no effect yet, and guesses at what a wrong one was meant to be.

/// Keys without effect, `*` for any name. A section stands for all below it.
pub(super) const WITHOUT_EFFECT: &[&str] = &[
    "acp",
    "agents",
    "data",
    "default_plan_mode",
    "experimental",
    "flow",
    "goal",
    "hooks",
    "identity",
    "log.bodies",
    "log.files",
    "log.format",
    "log.max_bytes",
    "log.session_files",
    "log.session_max_bytes",
    "loop.compaction_output_tokens",
    "loop.compaction_ratio",
    "loop.reserved_context_size",
    "managed",
    "mcp",
    "models.*.adaptive_thinking",
    "models.*.base_url",
    "models.*.fallback_models",
    "models.*.max_input_size",
    "models.*.off_effort",
    "models.*.overrides.adaptive_thinking",
    "models.*.overrides.fallback_models",
    "models.*.overrides.max_input_size",
    "models.*.overrides.off_effort",
    "models.*.protocol",
    "network",
    "permission.rules.*.root",
    "permission.safe_commands",
    "providers.*.ca_file",
    "providers.*.discover",
    "providers.*.max_concurrent",
    "providers.*.oauth",
    "providers.*.proxy",
    "secondary_model",
    "services",
    "shell.host_terminal",
    "skills",
    "subagent",
    "swarm",
    "telemetry",
    "thinking.enabled",
    "thinking.keep",
    "token_counting",
    "tools",
    "web",
    "workspace",
];

/// Variables without effect.
pub(super) const VARIABLES_WITHOUT_EFFECT: &[&str] = &[
    "LONGSHORE_BUILTIN_PRODUCT_SKILLS",
    "LONGSHORE_EXPERIMENTAL",
    "LONGSHORE_MCP_STARTUP_TIMEOUT_MS",
    "LONGSHORE_MCP_TOOL_TIMEOUT_MS",
    "LONGSHORE_SEARCH_API_KEY",
    "LONGSHORE_SEARCH_BASE_URL",
    "LONGSHORE_SKILLS_DIR",
    "LONGSHORE_SUBAGENT_TIMEOUT_MS",
    "LONGSHORE_SWARM_MAX_CONCURRENCY",
    "LONGSHORE_THINKING_KEEP",
    "LONGSHORE_TOKEN_STRATEGY",
];

/// Edits between a wrong name and the one it is taken for.
const NEAR: usize = 2;

/// True where the key, or a section it stands in, has no effect yet.
pub(super) fn is_without_effect(path: &[String]) -> bool {
    WITHOUT_EFFECT.iter().any(|known| {
        let known: Vec<&str> = known.split('.').collect();
        known.len() <= path.len()
            && known
                .iter()
                .zip(path)
                .all(|(known, part)| *known == "*" || known == part)
    })
}

/// The names without effect that could stand directly below a path.
pub(super) fn names_below(path: &[String]) -> impl Iterator<Item = &'static str> {
    WITHOUT_EFFECT.iter().filter_map(move |known| {
        let known: Vec<&str> = known.split('.').collect();
        let below = known.len() == path.len() + 1;
        (below
            && known
                .iter()
                .zip(path)
                .all(|(known, part)| *known == "*" || known == part))
        .then(|| known[path.len()])
    })
}

/// The name that a wrong one was probably meant to be.
pub(super) fn nearest<'a>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let near = names
        .into_iter()
        .map(|name| (distance(wrong, name), name))
        .min()?;
    (near.0 <= NEAR && near.0 < wrong.chars().count()).then_some(near.1)
}

/// ", did you mean `x`?", or nothing: the end of a sentence about a wrong name.
pub(super) fn hint<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, names).map_or_else(
        || ".".to_owned(),
        |near| format!("; did you mean `{near}`?"),
    )
}

/// Letters to put in, take out or replace to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = ["max_context_size", "max_output_size", "deny", "ask"];
        let cases = [
            ("max_contxt_size", Some("max_context_size")),
            ("max_contxt_sze", Some("max_context_size")),
            ("maxcontextsize", Some("max_context_size")),
            ("denny", Some("deny")),
            ("ak", Some("ask")),
            ("x", None),
            ("temperature", None),
        ];
        for (wrong, expected) in cases {
            assert_eq!(nearest(wrong, names), expected, "{wrong}");
        }
    }

    #[test]
    fn sections_stand_for_all_below() {
        let cases = [
            ("goal.auto_resume", true),
            ("goal", true),
            ("cron.enabled", false),
            ("providers.x.oauth.key", true),
            ("providers.x.base_url", false),
            ("loop.max_steps_per_turn", false),
        ];
        for (key, expected) in cases {
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            assert_eq!(is_without_effect(&path), expected, "{key}");
        }
    }
}
