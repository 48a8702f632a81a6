"""Reductions: parts are collected, folded in group order, and spread."""
