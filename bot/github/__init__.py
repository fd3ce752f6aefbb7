"""Translates between GitHub's API and the core types. Decides nothing, and GitHub's JSON does not leave this
package."""
