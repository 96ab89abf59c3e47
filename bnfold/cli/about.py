"""Commands that are about bnfold itself and read no model: explanations, and completion in a shell."""

from __future__ import annotations

import json

import click

from bnfold.cli.completion import SHELLS, among, script
from bnfold.cli.group import Command
from bnfold.cli.options import option, user_errors


def version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the versions of bnfold and of what it depends on."""
    if wanted and not ctx.resilient_parsing:
        from bnfold.pipeline.versions import versions

        click.echo("\n".join(f"{package} {number}" for package, number in versions().items()))
        ctx.exit()


def _words() -> list[str]:
    from bnfold.cli import explanation
    from bnfold.verification.codes import WORDS

    facts = explanation.codes()
    named = [*facts["codes"], *WORDS, *facts["verification"], *facts["rewrites"], *facts["words"]]
    return [*named, *explanation.known_operators()]


@click.command(cls=Command)
@click.argument("words", metavar="[CODE|VERDICT|REWRITE|OPERATOR|WORD]", nargs=-1, shell_complete=among(_words))
@option("as_json", help="Print the same as JSON on standard output.")
def explain(words: tuple[str, ...], *, as_json: bool) -> None:
    """Explain a code, a rewrite, a word of the output such as unverified, or what bnfold knows of an operator.

    Of a reason: what it means, what you can do, and an example. Of a verdict (verified, unverified, failed): what it
    means, and its codes. Of a rewrite: what it does, and how equal its result is. Of an operator: how the scale and
    shift of a BatchNormalization pass it, its versions, and what verification knows of it. Without an argument: all
    codes and rewrites.
    """
    from bnfold.cli import explanation

    word = " ".join(words)
    with user_errors([word]):
        facts = explanation.explained(word) if word else explanation.codes()
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for line in explanation.lines(facts):
        click.echo(line)


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and values in a shell."""
    click.echo(script(ctx.find_root().command, shell))
