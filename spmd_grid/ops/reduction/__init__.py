"""Reductions: parts are collected, folded in order, and spread."""
